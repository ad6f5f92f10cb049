import { CodeCell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";

import { pictureOf } from "../drawing";
import { Failure } from "../failure";
import type { Handler } from "../handler";
import { cellModel, cellWidget } from "../notebook";

const PATIENCE = 2000; // ms in which a page draws a chart, and at the first one loads what draws it
const LOOK = 50; // ms between two looks

/**
 * What one output of a cell shows, where it is drawn by canvases or drawings: looked at until two looks see the same.
 * Null where there is nothing of the kind, or where the cell has other outputs than the kernel knows of.
 */
export const picture: Handler<"picture"> = async ({ panel }, { cell, index, count, side, limit }) => {
  cellModel(panel, cell);
  const end = performance.now() + PATIENCE;
  let last: string | null = null;
  for (;;) {
    const node = outputNode(panel, cell, index, count);
    const seen: string | null = node === null ? null : await pictureOf(node, side);
    if ((seen !== null && seen === last) || node === null || performance.now() > end) {
      return { image: seen !== null && seen.length <= limit ? seen : null };
    }
    last = seen;
    await new Promise((resolve) => setTimeout(resolve, LOOK));
  }
};

/** The part of the page that shows this output, and nothing else. */
function outputNode(panel: NotebookPanel, id: string, index: number, count: number): HTMLElement | null {
  const cell = cellWidget(panel, id);
  if (!(cell instanceof CodeCell) || index < 0 || index >= count) {
    throw new Failure("bad_request", `The cell ${id} has no such output.`, { cell: id });
  }
  return cell.model.outputs.length === count ? (cell.outputArea.widgets[index]?.node ?? null) : null;
}
