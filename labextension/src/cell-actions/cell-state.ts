import type { ICellModel } from "@jupyterlab/cells";
import type { IError, IOutput } from "@jupyterlab/nbformat";
import type { NotebookPanel } from "@jupyterlab/notebook";

import { METADATA_KEY } from "../bridge/handlers/remember";
import { isCode, isRunning } from "../bridge/notebook";
import { isPrompt } from "./prompts";

const STOPPED = "RunStopped";
const FAILED = "RunFailed";

/** What can be offered below the output of a cell. */
export type Offer = "fix" | "retry" | "follow-up" | null;

/** A run that changed cells or files, as the kernel finds it. */
export interface ChangedRun {
  conversation: string;
  run: number;
}

/** What the run in a cell's output can be undone by; null where it changed nothing, or still goes on. */
export function changedRunOf(model: ICellModel): ChangedRun | null {
  if (!isCode(model) || isRunning(model)) {
    return null;
  }
  for (const { metadata } of model.outputs.toJSON().reverse()) {
    const said = (metadata as Record<string, { undo?: Partial<ChangedRun> } | undefined> | undefined)?.[METADATA_KEY];
    const { conversation, run } = said?.undo ?? {};
    if (typeof conversation === "string" && Number.isSafeInteger(run)) {
      return { conversation, run: run as number };
    }
  }
  return null;
}

/** The error that a cell's last run ended with; null where it ended well. */
export function errorOf(model: ICellModel): string | null {
  const outputs: IOutput[] = isCode(model) ? model.outputs.toJSON() : [];
  const last = outputs.at(-1);
  return last?.output_type === "error" ? (last as IError).ename : null;
}

/** Whether the run in a cell ended with an error, and not by its user. */
export function hasFailed(model: ICellModel): boolean {
  return errorOf(model) === FAILED;
}

/** Whether the agent, which works in kernels of Python, can help with the cells of this notebook. */
export function isPython({ content }: NotebookPanel): boolean {
  return content.model?.defaultKernelLanguage === "python";
}

export function isPromptCell(model: ICellModel): boolean {
  return isCode(model) && isPrompt(model.sharedModel.getSource());
}

/**
 * What a cell offers.
 *
 * @param newest the cell of the newest run, below which a conversation goes on.
 */
export function offerOf(model: ICellModel, newest: ICellModel | null): Offer {
  if (!isCode(model) || isRunning(model)) {
    return null;
  }
  const error = errorOf(model);
  if (!isPromptCell(model)) {
    return error === null ? null : "fix";
  }
  if (model !== newest) {
    return null;
  }
  return error === STOPPED || error === FAILED ? "retry" : error === null ? "follow-up" : null;
}

/** The prompt cell with the highest number: after a reload of the page nothing else says which run was the newest. */
export function lastNumbered(cells: Iterable<ICellModel>): ICellModel | null {
  let newest: ICellModel | null = null;
  let highest = 0;
  for (const cell of cells) {
    const number = isPromptCell(cell) && isCode(cell) ? cell.executionCount ?? 0 : 0;
    if (number > highest) {
      highest = number;
      newest = cell;
    }
  }
  return newest;
}

export function numberOf(model: ICellModel): number | null {
  return isCode(model) ? model.executionCount : null;
}
