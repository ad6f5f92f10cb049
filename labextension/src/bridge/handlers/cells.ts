import type { ICellModel } from "@jupyterlab/cells";

import { brief } from "../brief";
import { markOf } from "../cell-mark";
import type { Handler } from "../handler";
import type { CellKind, ListedCell } from "../../contract";
import { cellModels, isCode, isRunning, modelOf } from "../notebook";

export const cells: Handler<"cells"> = ({ panel }) => ({
  path: panel.context.path,
  dirty: modelOf(panel).dirty,
  cells: cellModels(panel).map(describe),
});

function describe(model: ICellModel): ListedCell {
  const code = isCode(model) ? model : null;
  const outputs = code?.outputs;
  return {
    id: model.id,
    kind: model.type as CellKind,
    source: model.sharedModel.getSource(),
    execution_count: code?.executionCount ?? null,
    running: isRunning(model),
    edited_since_run: code?.isDirty ?? false,
    may_raise: tagsOf(model).includes("raises-exception"), // nbformat's tag for a cell whose error is meant
    tags: tagsOf(model),
    vibe: markOf(model.sharedModel),
    outputs: outputs === undefined ? [] : Array.from({ length: outputs.length }, (_, at) => brief(outputs.get(at))),
  };
}

function tagsOf(model: ICellModel): string[] {
  const tags: unknown = model.getMetadata("tags");
  return Array.isArray(tags) ? tags.filter((tag) => typeof tag === "string") : [];
}
