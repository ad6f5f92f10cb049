import { CodeCell } from "@jupyterlab/cells";
import type { Kernel } from "@jupyterlab/services";

import { Failure } from "../failure";
import type { Handler, Place } from "../handler";
import { cellWidget, isRunning } from "../notebook";
import { hashOf } from "../source";

const SEND_WAIT = 5000; // ms until the page must have sent the cell

/**
 * Run a cell as Shift-Enter does, but without touching mode, selection and scroll. Answers when the kernel has been
 * sent the cell; the end is told as an event, since the kernel cannot finish the cell before it has the answer.
 */
export const run: Handler<"run"> = async (place, { cell, code_hash: expected }, { id }) => {
  const widget = runnable(place, cell, expected);
  const sent = whenSent(place.kernel, cell);
  const done = execute(place, widget).then(() => {
    place.tell("run_done", { id, cell });
    return "done" as const;
  });
  if ((await Promise.race([sent.promise, done])) !== "sent") {
    sent.stop();
    throw new Failure("not_finished", `The page did not send the cell ${cell} to the kernel.`, { cell });
  }
  return { started: true };
};

function runnable({ panel }: Place, id: string, expected: string): CodeCell {
  const widget = cellWidget(panel, id);
  const source = widget.model.sharedModel.getSource();
  if (hashOf(source) !== expected) {
    throw new Failure("stale_cell", `The cell ${id} has changed.`, { cell: id, source });
  }
  if (!(widget instanceof CodeCell) || source.trim() === "") {
    throw new Failure("bad_request", `The cell ${id} holds no code.`, { cell: id });
  }
  if (isRunning(widget.model)) {
    throw new Failure("not_finished", `The cell ${id} is queued or running already.`, { cell: id });
  }
  if (panel.sessionContext.pendingInput) {
    throw new Failure("not_finished", "The notebook waits for input, and runs no cell until it is given.", { cell: id });
  }
  return widget;
}

/** The page's own way to run a cell. What goes wrong in it is shown in the cell. */
async function execute({ panel, executor }: Place, cell: CodeCell): Promise<void> {
  const nothing = (): void => undefined;
  try {
    await executor.runCell({
      cell,
      notebook: panel.content.model ?? neverWithoutModel(),
      notebookConfig: panel.content.notebookConfig,
      onCellExecuted: nothing,
      onCellExecutionScheduled: nothing,
      sessionContext: panel.sessionContext,
    });
  } catch {
    return;
  }
}

function neverWithoutModel(): never {
  throw new Failure("closed", "The notebook is closed.");
}

/** Settles when the request for this cell goes to the kernel, or never came to it in time. */
function whenSent(
  kernel: Kernel.IKernelConnection,
  cell: string,
): { promise: Promise<"sent" | "late">; stop: () => void } {
  const { promise, resolve } = withResolver<"sent" | "late">();
  const timer = setTimeout(() => {
    settle("late");
  }, SEND_WAIT);
  const listen = (_: unknown, { direction, msg }: Kernel.IAnyMessageArgs): void => {
    if (direction === "send" && msg.header.msg_type === "execute_request" && msg.metadata.cellId === cell) {
      settle("sent");
    }
  };
  const settle = (how: "sent" | "late"): void => {
    clearTimeout(timer);
    kernel.anyMessage.disconnect(listen);
    resolve(how);
  };
  kernel.anyMessage.connect(listen);
  return { promise, stop: settle.bind(null, "late") };
}

function withResolver<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((take) => {
    resolve = take;
  });
  return { promise, resolve };
}
