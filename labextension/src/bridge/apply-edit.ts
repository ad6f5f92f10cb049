import type { INotebookModel } from "@jupyterlab/notebook";

import { type CellMark, metadataOf, setMark } from "./cell-mark";
import { unknownCell } from "./notebook";
import { difference } from "./source";
import type { CellEdit } from "../contract";

/** What Yjs documents have beside their interface: where one undo step ends. */
interface Undoable {
  undoManager?: { stopCapturing(): void } | null;
}

/** Make one edit of a notebook, as one step of undo. */
export function applyEdit(model: INotebookModel, one: CellEdit): void {
  switch (one.op) {
    case "set_source":
      setSource(model, one.cell, one.source, one.vibe);
      break;
    case "insert":
      asOneStep(model, () => {
        const { id, kind, source, vibe } = one;
        const fields = kind === "code" ? { outputs: [], execution_count: null } : {};
        const place = placeAfter(model, one.after);
        model.sharedModel.insertCell(place, { id, cell_type: kind, source, metadata: metadataOf(vibe), ...fields });
      });
      break;
    case "delete": {
      const ids = one.cells.map(({ id }) => id);
      asOneStep(model, () => {
        remove(model, ids);
      });
      model.deletedCells.push(...ids);
      break;
    }
    case "move":
      move(model, one.cells, one.after);
      break;
  }
}

/** By the cell's own model, so that undo inside the cell takes it back. */
function setSource(model: INotebookModel, id: string, source: string, mark: CellMark): void {
  const cell = model.sharedModel.getCell(placeOf(model, id));
  const { undoManager } = cell as Undoable;
  undoManager?.stopCapturing();
  const { start, end, text } = difference(cell.getSource(), source);
  cell.transact(() => {
    cell.updateSource(start, end, text);
    setMark(cell, mark);
  });
  undoManager?.stopCapturing();
}

/** Yjs cannot move: the cells are taken out and put in again, with their ids and outputs. */
function move(model: INotebookModel, ids: readonly string[], after: string | null): void {
  const shared = model.sharedModel;
  const clones = ids.map((id) => shared.getCell(placeOf(model, id)).toJSON());
  const staying = shared.cells.map((cell) => cell.getId()).filter((id) => !ids.includes(id));
  const place = after === null ? 0 : staying.indexOf(after) + 1;
  asOneStep(model, () => {
    remove(model, ids);
    shared.insertCells(place, clones);
  });
}

/** From the last to the first, since the list of shared cells is brought up to date after the step only. */
function remove(model: INotebookModel, ids: readonly string[]): void {
  const places = ids.map((id) => placeOf(model, id)).sort((one, other) => other - one);
  for (const place of places) {
    model.sharedModel.deleteCell(place);
  }
}

/** Changes of the list of cells: undone together by the notebook's undo. */
function asOneStep(model: INotebookModel, change: () => void): void {
  const { undoManager } = model.sharedModel as Undoable;
  undoManager?.stopCapturing();
  model.sharedModel.transact(change, true);
  undoManager?.stopCapturing();
}

function placeOf(model: INotebookModel, id: string): number {
  const place = model.sharedModel.cells.findIndex((cell) => cell.getId() === id);
  if (place < 0) {
    throw unknownCell(id);
  }
  return place;
}

function placeAfter(model: INotebookModel, after: string | null): number {
  return after === null ? 0 : placeOf(model, after) + 1;
}
