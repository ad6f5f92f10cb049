import type { Handler } from "../handler";
import { cellModel, isCode } from "../notebook";
import { viewsOf } from "../views";

/**
 * Put what a run left in the place of its live view, where the page missed the end of the run: the notebook was closed,
 * or the cell was moved or deleted and brought back. Without data only say whether the view still stands there.
 * The number of the cell is missed by a page that did not see it start.
 */
export const keep: Handler<"keep"> = ({ panel }, { cell, model_id: id, data, number }) => {
  const model = cellModel(panel, cell);
  if (isCode(model) && typeof number === "number" && model.executionCount === null) {
    model.executionCount = number;
  }
  const view = viewsOf(model).find((one) => one.id === id);
  if (view === undefined || !isCode(model)) {
    return { stands: false };
  }
  if (data === null || data === undefined) {
    return { stands: true };
  }
  model.outputs.set(view.place, { output_type: "display_data", data, metadata: {} });
  return { stands: false };
};
