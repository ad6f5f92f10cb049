import type { ICellModel } from "@jupyterlab/cells";
import type { IOutput } from "@jupyterlab/nbformat";

import { METADATA_KEY } from "./handlers/remember";
import { isCode } from "./notebook";

const held = new WeakMap<ICellModel, IOutput[]>();

/** Remember what runs of the agent left in a cell that is about to run: JupyterLab empties it before the kernel is asked. */
export function holdOutputs(model: ICellModel): void {
  const outputs = isCode(model) ? model.outputs.toJSON().filter(isOfRun) : [];
  if (outputs.length > 0) {
    held.set(model, outputs);
  } else {
    held.delete(model);
  }
}

/** What a cell lost when it was run last. */
export function heldOutputs(model: ICellModel): IOutput[] {
  return held.get(model) ?? [];
}

function isOfRun({ metadata }: IOutput): boolean {
  return typeof metadata === "object" && metadata !== null && METADATA_KEY in metadata;
}
