import { Failure } from "../failure";
import type { Handler } from "../handler";
import { cellModel, isCode, isRunning } from "../notebook";
import { OutputRecovery } from "../output-recovery";
import { markOf } from "../views";

/**
 * Show a live view again in the running cell, whose outputs were lost when the page was reloaded, and follow the cell
 * to its end.
 */
export const show: Handler<"show"> = ({ kernel, panel }, args, { message }) => {
  const model = cellModel(panel, args.cell);
  if (!isCode(model)) {
    throw new Failure("bad_request", `The cell ${args.cell} holds no code.`, { cell: args.cell });
  }
  // A page that saw the cell start has its view; one that was loaded since thinks the cell at rest.
  if (!isRunning(model)) {
    const recovery = new OutputRecovery(kernel, model, message);
    panel.disposed.connect(() => { recovery.dispose(); });
    recovery.show({ "text/html": markOf(args.model_id), "text/plain": "" }, args.display_id ?? null);
  }
  return {};
};
