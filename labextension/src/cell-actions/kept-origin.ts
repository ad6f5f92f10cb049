import type { ICellModel } from "@jupyterlab/cells";

import { setMark } from "../bridge/cell-mark";
import { METADATA_KEY } from "../bridge/handlers/remember";
import { isCode } from "../bridge/notebook";
import { hashOf } from "../bridge/source";

/** Who wrote the code that a run shows, as the run says when it is over. */
export interface RunAuthor {
  model: string;
  conversation: string;
  run: number | null;
}

/** The author of the run in a cell; null while it goes on, and where an older kernel did not say. */
export function authorOf(model: ICellModel): RunAuthor | null {
  for (const { metadata } of isCode(model) ? model.outputs.toJSON().reverse() : []) {
    const said = (metadata as Record<string, { author?: Partial<RunAuthor> } | undefined> | undefined)?.[METADATA_KEY];
    const { model: name, conversation = "", run = null } = said?.author ?? {};
    if (typeof name === "string" && typeof conversation === "string" && (run === null || Number.isSafeInteger(run))) {
      return { model: name, conversation, run };
    }
  }
  return null;
}

/**
 * Say in a cell that was made of a run's code where it comes from: at once, or when the run is over if it goes on.
 * Nothing is said of what somebody has changed by then.
 */
export function signKept(cell: ICellModel, source: string, run: ICellModel): void {
  const time = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  const sign = (): void => {
    const author = authorOf(run);
    if (author === null) {
      return;
    }
    stop();
    if (!cell.isDisposed && cell.sharedModel.getSource() === source) {
      const named = Object.entries(author).filter(([, value]) => value !== null && value !== "");
      setMark(cell.sharedModel, {
        ...Object.fromEntries(named), prompt: run.id, approved: { by: "user", time }, source: hashOf(source),
      });
    }
  };
  const stop = (): void => {
    if (isCode(run)) {
      run.outputs.changed.disconnect(sign);
    }
  };
  if (isCode(run)) {
    run.outputs.changed.connect(sign);
  }
  sign();
}
