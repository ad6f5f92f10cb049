import { CodeCell } from "@jupyterlab/cells";
import type { Kernel } from "@jupyterlab/services";

import { dropDeadBoxes } from "../boxes";
import { Failure } from "../failure";
import type { Handler, Place } from "../handler";
import { cellWidget, isRunning } from "../notebook";
import { hashOf } from "../source";

const SEND_WAIT = 5000; // ms until the page must have sent the cell
const END_WAIT = 2000; // ms in which the page hears of the end of a run that the kernel has finished

/** The last run that we began of each cell; settled when the page has heard of its end. */
const runs = new WeakMap<object, Promise<unknown>>();

/**
 * Run a cell as Shift-Enter does, but without touching mode, selection and scroll. Answers when the kernel has been
 * sent the cell; the end is reported as an event, since the kernel cannot finish the cell before it has the answer.
 */
export const run: Handler<"run"> = async (place, { cell, code_hash: expected }, { id }) => {
  await heardOfEnd(cellWidget(place.panel, cell));
  const widget = runnable(place, cell, expected);
  const sent = whenSent(place.kernel, cell);
  const done = execute(place, widget).then(() => {
    dropDeadBoxes(widget);
    place.tell("run_done", { id, cell });
    return null;
  });
  runs.set(widget, done);
  const request = await Promise.race([sent.promise, done]);
  if (request === null) {
    sent.stop();
    throw new Failure("not_finished", `The page did not send the cell ${cell} to the kernel.`, { cell });
  }
  return { started: true, request };
};

/** The kernel asks for the next run of a cell as soon as it has finished one, which the page may not know yet. */
async function heardOfEnd(widget: object): Promise<void> {
  const before = runs.get(widget);
  if (before !== undefined) {
    await Promise.race([before, new Promise((resolve) => setTimeout(resolve, END_WAIT))]);
  }
}

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
    // As JupyterLab's own commands do with a cell that the kernel answered as not run.
    if (!cell.isDisposed && cell.model.executionCount === null) {
      cell.model.executionState = "idle";
    }
  }
}

function neverWithoutModel(): never {
  throw new Failure("closed", "The notebook is closed.");
}

/** Settles with the id of the request for this cell when it goes to the kernel, with null if it does not in time. */
function whenSent(
  kernel: Kernel.IKernelConnection,
  cell: string,
): { promise: Promise<string | null>; stop: () => void } {
  const { promise, resolve } = withResolver<string | null>();
  const timer = setTimeout(() => {
    settle(null);
  }, SEND_WAIT);
  const listen = (_: unknown, { direction, msg }: Kernel.IAnyMessageArgs): void => {
    if (direction === "send" && msg.header.msg_type === "execute_request" && msg.metadata.cellId === cell) {
      settle(msg.header.msg_id);
    }
  };
  const settle = (request: string | null): void => {
    clearTimeout(timer);
    kernel.anyMessage.disconnect(listen);
    resolve(request);
  };
  kernel.anyMessage.connect(listen);
  return { promise, stop: settle.bind(null, null) };
}

function withResolver<T>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((take) => {
    resolve = take;
  });
  return { promise, resolve };
}
