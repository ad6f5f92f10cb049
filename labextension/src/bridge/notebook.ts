import type { Cell, ICellModel, ICodeCellModel } from "@jupyterlab/cells";
import type { INotebookModel, NotebookPanel } from "@jupyterlab/notebook";

import { Failure } from "./failure";

/** The model of an open notebook. */
export function modelOf(panel: NotebookPanel): INotebookModel {
  const { model } = panel.content;
  if (panel.isDisposed || model === null || model.isDisposed) {
    throw new Failure("closed", "The notebook is closed.");
  }
  return model;
}

export function cellModels(panel: NotebookPanel): ICellModel[] {
  return Array.from(modelOf(panel).cells);
}

export function cellModel(panel: NotebookPanel, id: string): ICellModel {
  const model = cellModels(panel).find((cell) => cell.id === id);
  if (model === undefined) {
    throw unknownCell(id);
  }
  return model;
}

export function cellWidget(panel: NotebookPanel, id: string): Cell {
  const widget = panel.content.widgets.find((cell) => cell.model.id === id);
  if (widget === undefined) {
    throw unknownCell(id);
  }
  return widget;
}

export function isCode(model: ICellModel): model is ICodeCellModel {
  return model.type === "code";
}

/** Running, or sent and waiting for its turn. */
export function isRunning(model: ICellModel): boolean {
  return isCode(model) && model.executionState === "running";
}

export function unknownCell(id: string): Failure {
  return new Failure("unknown_cell", `There is no cell ${id} in this notebook.`, { cell: id });
}
