import type { ICodeCellModel } from "@jupyterlab/cells";
import type { IMimeBundle } from "@jupyterlab/nbformat";
import type { PartialJSONObject } from "@lumino/coreutils";

import type { Handler } from "../handler";
import { cellModel, isCode } from "../notebook";
import { viewsOf } from "../views";

const ARRIVAL = 600; // ms in which an output that the server adds reaches this page
const LOOK = 100; // ms between two looks

/**
 * Put what a run left in the place of its live view, where the page missed the end of the run: the notebook was closed,
 * or the cell was moved or deleted and brought back. Without data only say whether the view still stands there.
 * The number of the cell is missed by a page that did not see it start. A server that runs cells itself may have put what
 * is left behind the view instead of in its place; then the view only goes. What the kernel adds below the output of a
 * cell that has ended, such as a card, no page takes from its messages: that is asked for here too.
 */
export const keep: Handler<"keep"> = async ({ panel }, { cell, model_id: id, data, metadata, number, adds }) => {
  const model = cellModel(panel, cell);
  if (isCode(model) && typeof number === "number" && model.executionCount === null) {
    model.executionCount = number;
  }
  const view = viewsOf(model).find((one) => one.id === id);
  if (view === undefined && isCode(model) && adds === true) {
    model.trusted = true; // what comes now was made by the user's own kernel
    model.outputs.add({ output_type: "display_data", data: data as IMimeBundle, metadata: {} });
    return { stands: true };
  }
  if (view === undefined || !isCode(model)) {
    return { stands: false };
  }
  if (data === null || data === undefined) {
    return { stands: true };
  }
  const bundle = data as IMimeBundle;
  const described = (metadata ?? {}) as PartialJSONObject;
  if (await holds(model, bundle)) {
    model.sharedModel.updateOutputs(view.place, view.place + 1, []);
    return { stands: false };
  }
  model.outputs.set(view.place, { output_type: "display_data", data: bundle, metadata: described });
  return { stands: false };
};

/** Whether the cell has this output, or gets it in a moment. */
async function holds(model: ICodeCellModel, data: IMimeBundle): Promise<boolean> {
  const isThere = (): boolean => model.outputs.toJSON().some((one) => sameText(one["data"] as IMimeBundle, data));
  for (let waited = 0; waited < ARRIVAL && !isThere(); waited += LOOK) {
    await new Promise((resolve) => setTimeout(resolve, LOOK));
  }
  return isThere();
}

function sameText(one: IMimeBundle | undefined, other: IMimeBundle): boolean {
  const html = one?.["text/html"];
  return html !== undefined && JSON.stringify(html) === JSON.stringify(other["text/html"]);
}
