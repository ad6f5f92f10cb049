import type { IOutput } from "@jupyterlab/nbformat";

import type { InnerCell } from "../../contract";
import { Failure } from "../failure";
import type { Handler, Place } from "../handler";
import { cellModel, cellModels, isCode, isRunning } from "../notebook";
import { OutputRecovery } from "../output-recovery";
import { markOf } from "../views";

/**
 * Show a live view again in the running cell, whose outputs were lost when the page was reloaded, and follow the cell
 * to its end. So the page does with a cell that the agent runs in its place meanwhile.
 */
export const show: Handler<"show"> = (place, args, { message }) => {
  const { kernel, panel } = place;
  const model = cellModel(panel, args.cell);
  if (!isCode(model)) {
    throw new Failure("bad_request", `The cell ${args.cell} holds no code.`, { cell: args.cell });
  }
  // A page that saw the cell start has its view; one that was loaded since thinks the cell at rest.
  if (!isRunning(model)) {
    model.clearExecution();
    const recovery = new OutputRecovery(kernel, model, message);
    panel.disposed.connect(() => { recovery.dispose(); });
    recovery.show({ "text/html": markOf(args.model_id), "text/plain": "" }, args.display_id ?? null);
  }
  if (args.inner) {
    recover(place, args.inner);
  }
  return {};
};

function recover({ kernel, panel }: Place, { cell, request, number, outputs, is_over: isOver }: InnerCell): void {
  const model = cellModels(panel).find(({ id }) => id === cell);
  if (model === undefined || !isCode(model) || isRunning(model) || (model.executionCount ?? 0) >= number) {
    return; // it was deleted, or this page saw it begin
  }
  const recovery = new OutputRecovery(kernel, model, request, number);
  panel.disposed.connect(() => { recovery.dispose(); });
  model.executionCount = null;
  recovery.put(outputs as IOutput[]);
  if (isOver) {
    recovery.end();
  }
}
