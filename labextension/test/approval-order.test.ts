import assert from "node:assert/strict";
import { test } from "node:test";

import { badged, neighbour } from "../src/approvals/order";

test("from outside of every card the first one comes next, and the last one comes before", () => {
  assert.equal(neighbour(["a", "b", "c"], null, 1), "a");
  assert.equal(neighbour(["a", "b", "c"], null, -1), "c");
  assert.equal(neighbour(["a", "b"], "gone", 1), "a");
});

test("behind the last card comes the first one, and before the first the last", () => {
  assert.equal(neighbour(["a", "b", "c"], "a", 1), "b");
  assert.equal(neighbour(["a", "b", "c"], "c", 1), "a");
  assert.equal(neighbour(["a", "b", "c"], "a", -1), "c");
  assert.equal(neighbour(["a"], "a", 1), "a");
});

test("where no card waits there is none to go to", () => {
  assert.equal(neighbour([], null, 1), null);
  assert.equal(neighbour([], "a", -1), null);
});

test("the title of a hidden page counts the cards that wait, and gets its own words back", () => {
  assert.equal(badged("penguins.ipynb", 1), "● (1) penguins.ipynb");
  assert.equal(badged(badged("penguins.ipynb", 1), 2), "● (2) penguins.ipynb");
  assert.equal(badged(badged("penguins.ipynb", 2), 0), "penguins.ipynb");
  assert.equal(badged("● penguins", 0), "● penguins");
});
