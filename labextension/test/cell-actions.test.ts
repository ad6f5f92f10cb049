import assert from "node:assert/strict";
import { test } from "node:test";

import { changedRunOf, lastNumbered, offerOf } from "../src/cell-actions/cell-state";
import { answerIn } from "../src/cell-actions/kept-end";
import { isPrompt, promptFor } from "../src/cell-actions/prompts";

interface Made {
  source: string;
  error?: string;
  state?: "running" | "idle";
  number?: number;
}

/** As much of a code cell's model as is looked at. */
function cell({ source, error, state = "idle", number }: Made): never {
  const outputs = error === undefined ? [] : [{ output_type: "error", ename: error, evalue: "", traceback: [] }];
  return {
    type: "code",
    executionState: state,
    executionCount: number ?? null,
    outputs: { toJSON: () => outputs },
    sharedModel: { getSource: () => source },
  } as never;
}

test("a cell asks the agent if it begins with the magic", () => {
  assert.deepEqual(["%%vibe", "%%vibe --model x\nhello", "\n %%vibe\nhello"].map(isPrompt), [true, true, true]);
  assert.deepEqual(["%vibe hello", "%%vibes", "x = 1\n%%vibe"].map(isPrompt), [false, false, false]);
});

test("a prompt names the cell above by its number, where it has one", () => {
  assert.match(promptFor("explain", 4), /^Explain @\[4\], the cell above\./);
  assert.match(promptFor("explain", null), /^Explain the cell above\./);
});

test("an error offers to be fixed, while its cell does not run", () => {
  assert.equal(offerOf(cell({ source: "1 / 0", error: "ZeroDivisionError" }), null), "fix");
  assert.equal(offerOf(cell({ source: "1 / 0", error: "ZeroDivisionError", state: "running" }), null), null);
  assert.equal(offerOf(cell({ source: "1 / 1" }), null), null);
});

test("the newest run alone offers to go on, and a failed or stopped one to try again", () => {
  const older = cell({ source: "%%vibe\nhello", number: 3 });
  for (const [error, offer] of [[undefined, "follow-up"], ["RunFailed", "retry"], ["RunStopped", "retry"], ["UsageError", null]]) {
    const newest = cell({ source: "%%vibe\nhello", number: 4, ...(error ? { error } : {}) });
    assert.equal(offerOf(newest, newest), offer);
    assert.equal(offerOf(older, newest), null);
  }
});

test("a run that changed something can be undone, once it is over", () => {
  const metadata = { vibe_jupyter: { reason: "stop", undo: { conversation: "c0ffee", run: 3 } } };
  const left = (state: "running" | "idle", ...all: object[]): never =>
    ({ type: "code", executionState: state, outputs: { toJSON: () => all } }) as never;
  assert.deepEqual(changedRunOf(left("idle", { metadata }, { metadata: {} })), { conversation: "c0ffee", run: 3 });
  assert.equal(changedRunOf(left("running", { metadata })), null);
  assert.equal(changedRunOf(left("idle", { metadata: { vibe_jupyter: { reason: "stop" } } }, {})), null);
  const forged = { vibe_jupyter: { undo: { conversation: "c0ffee", run: "1); forged(" } } };
  assert.equal(changedRunOf(left("idle", { metadata: forged })), null);
});

test("after a reload the newest run is the one with the highest number", () => {
  const [first, second, other] = [
    cell({ source: "%%vibe\nhello", number: 7 }),
    cell({ source: "%%vibe\nhello", number: 2 }),
    cell({ source: "x = 1", number: 9 }),
  ];
  assert.equal(lastNumbered([first, second, other]), first);
  assert.equal(lastNumbered([other, cell({ source: "%%vibe\nnot yet" })]), null);
});

test("what is copied is the answer alone", () => {
  assert.equal(answerIn("**Yes.**\n\nChanged is nothing.\n\nDone · 2.1 s"), "**Yes.**\n\nChanged is nothing.");
  assert.equal(answerIn("Fixed.\n\nChanged: [4] edited\n\nDone · 2.1 s"), "Fixed.");
  assert.equal(answerIn("Done · 2.1 s"), "");
});
