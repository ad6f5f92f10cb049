import assert from "node:assert/strict";
import { test } from "node:test";

import { acceptLabel, reviewAction } from "../src/run-view/review";

/** An element, as far as the keys look at it. */
const on = (...selectors: string[]): Pick<Element, "matches"> => ({
  matches: (wanted: string) => wanted.split(", ").some((one) => selectors.includes(one)),
});
const press = (key: string, target = on(), shiftKey = false): string | null => reviewAction({ key, shiftKey }, target);

test("the primary button names how many changes it takes", () => {
  assert.equal(acceptLabel(4, 4), "Accept all");
  assert.equal(acceptLabel(3, 4), "Accept selected (3)");
  assert.equal(acceptLabel(0, 4), "Accept selected (0)");
});

test("Enter takes what is checked, Shift-Enter all, Escape asks for a reason", () => {
  assert.equal(press("Enter"), "approve-selected");
  assert.equal(press("Enter", on(), true), "approve-all");
  assert.equal(press("Escape"), "reject");
  assert.equal(press("x"), null);
});

test("on a row Enter opens its diff, and in the line for a reason it rejects", () => {
  assert.equal(press("Enter", on("summary")), null);
  assert.equal(press("Enter", on(".vibe-deny-message")), "reject-now");
  assert.equal(press("Escape", on(".vibe-deny-message")), "back");
});
