import assert from "node:assert/strict";
import { test } from "node:test";

import { questionAction } from "../src/run-view/questions";

/** An element, as far as the keys look at it. */
const on = (...selectors: string[]): Pick<Element, "matches"> => ({ matches: (wanted) => selectors.includes(wanted) });

test("a digit chooses, Enter goes on, Escape skips", () => {
  assert.equal(questionAction("1", on()), 1);
  assert.equal(questionAction("9", on("button")), 9);
  assert.equal(questionAction("0", on()), null);
  assert.equal(questionAction("Enter", on()), "forward");
  assert.equal(questionAction("Escape", on()), "skip");
});

test("in the line for own words digits are text and Escape leaves; on a button Enter presses it", () => {
  assert.equal(questionAction("1", on(".vibe-own-words")), null);
  assert.equal(questionAction("Escape", on(".vibe-own-words")), "leave");
  assert.equal(questionAction("Enter", on(".vibe-own-words")), "forward");
  assert.equal(questionAction("Enter", on("button")), null);
});
