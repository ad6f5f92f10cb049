import type { INotebookModel } from "@jupyterlab/notebook";

import { applyEdit } from "../apply-edit";
import { Failure } from "../failure";
import type { Handler } from "../handler";
import type { CellEdit, Methods } from "../../contract";
import { cellModels, modelOf } from "../notebook";
import { validateEdits } from "../validate-edits";
import { preserveViewState } from "../view-state";
import { changesOf } from "../../changes/logs";

export const edit: Handler<"edit"> = ({ panel }, { edits }) => {
  const model = modelOf(panel);
  if (model.readOnly) {
    throw new Failure("read_only", "This notebook is read-only.");
  }
  const cells = cellModels(panel);
  validateEdits(cells, edits);
  changesOf(panel).note(edits, (id) => cells.find((cell) => cell.id === id)?.sharedModel);
  preserveViewState(panel.content, () => {
    edits.forEach((one) => {
      applyEdit(model, one);
    });
  });
  return readBack(model, edits);
};

function readBack(model: INotebookModel, edits: CellEdit[]): Methods["edit"]["result"] {
  const written = new Set(edits.flatMap((one) => (one.op === "set_source" ? one.cell : one.op === "insert" ? one.id : [])));
  const shared = model.sharedModel.cells;
  return {
    cells: shared
      .filter((cell) => written.has(cell.getId()))
      .map((cell) => ({ id: cell.getId(), source: cell.getSource() })),
    order: shared.map((cell) => cell.getId()),
  };
}
