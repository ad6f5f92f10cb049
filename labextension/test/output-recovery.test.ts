import assert from "node:assert/strict";
import { test } from "node:test";

import type { ICodeCellModel } from "@jupyterlab/cells";
import type { IOutput } from "@jupyterlab/nbformat";
import { KernelMessage, type Kernel } from "@jupyterlab/services";
import { Signal } from "@lumino/signaling";

import { OutputRecovery } from "../src/bridge/output-recovery";

const REQUEST = "the cell's request";

/** A cell that ran when its page was reloaded, and the kernel that still runs it. */
function reloaded() {
  const outputs: IOutput[] = [];
  const model = {
    outputs: {
      add: (output: IOutput) => outputs.push(output),
      set: (place: number, output: IOutput) => { outputs[place] = output; },
      clear: () => { outputs.length = 0; },
    },
    executionState: "idle",
    executionCount: null as number | null,
    trusted: false,
    isDisposed: false,
    clearExecution: () => { outputs.length = 0; },
  };
  const kernel = {} as { iopubMessage: Signal<unknown, KernelMessage.IIOPubMessage> };
  kernel.iopubMessage = new Signal(kernel);
  const recovery = new OutputRecovery(
    kernel as unknown as Kernel.IKernelConnection, model as unknown as ICodeCellModel, REQUEST,
  );
  const hear = (msgType: string, content: object, request = REQUEST): void => {
    const message = KernelMessage.createMessage({
      channel: "iopub", msgType, session: "session", content, parentHeader: { msg_id: request },
    } as never);
    kernel.iopubMessage.emit(message as unknown as KernelMessage.IIOPubMessage);
  };
  const texts = (): unknown[] => outputs.map((one) => one["text"] ?? (one["data"] as Record<string, unknown>)["text/plain"]);
  return { model, recovery, hear, texts };
}

const shown = (text: string, id?: string): object => ({
  data: { "text/plain": text }, metadata: {}, transient: id === undefined ? {} : { display_id: id },
});

test("what the cell prints and shows after a reload stands in it, and the end of the run is its end", () => {
  const { model, hear, texts } = reloaded();
  assert.equal(model.executionState, "running");
  hear("stream", { name: "stdout", text: "printed" });
  hear("execute_result", { ...shown("result"), execution_count: 7 });
  assert.deepEqual(texts(), ["printed", "result"]);
  assert.equal(model.executionCount, 7);
  hear("status", { execution_state: "idle" });
  assert.equal(model.executionState, "idle");
  hear("stream", { name: "stdout", text: "late" });
  assert.deepEqual(texts(), ["printed", "result"]);
});

test("messages of another cell are not its own", () => {
  const { model, hear, texts } = reloaded();
  hear("stream", { name: "stdout", text: "other" }, "another request");
  hear("status", { execution_state: "idle" }, "another request");
  assert.deepEqual(texts(), []);
  assert.equal(model.executionState, "running");
});

test("a display is updated where it stands, the recovered view too", () => {
  const { recovery, hear, texts } = reloaded();
  recovery.show({ "text/plain": "view" }, "view");
  hear("display_data", shown("first", "one"));
  hear("update_display_data", shown("second", "one"));
  hear("update_display_data", shown("kept form", "view"));
  hear("update_display_data", shown("nowhere", "unknown"));
  assert.deepEqual(texts(), ["kept form", "second"]);
});

test("a display is updated whichever cell says so", () => {
  const { recovery, hear, texts } = reloaded();
  recovery.show({ "text/plain": "view" }, "view");
  hear("update_display_data", shown("so far", "view"), "the request of a cell that the run has run");
  assert.deepEqual(texts(), ["so far"]);
});

test("outputs are cleared at once, or with the next one if the cell says so", () => {
  const { hear, texts } = reloaded();
  hear("display_data", shown("first", "one"));
  hear("clear_output", { wait: true });
  assert.deepEqual(texts(), ["first"]);
  hear("stream", { name: "stdout", text: "next" });
  assert.deepEqual(texts(), ["next"]);
  hear("update_display_data", shown("gone", "one"));
  assert.deepEqual(texts(), ["next"]);
  hear("clear_output", { wait: false });
  assert.deepEqual(texts(), []);
});

test("when the notebook is closed nothing is written to it any more", () => {
  const { model, recovery, hear, texts } = reloaded();
  model.isDisposed = true;
  hear("stream", { name: "stdout", text: "late" });
  assert.deepEqual(texts(), []);
  assert.equal(recovery.isDisposed, true);
});
