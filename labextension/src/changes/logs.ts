import type { NotebookPanel } from "@jupyterlab/notebook";

import { ChangeLog } from "./change-log";

export const REVIEW = "vibe-review-changes";

const logs = new WeakMap<NotebookPanel, ChangeLog>();

/** The changes of one view of a notebook, as long as it is open. */
export function changesOf(panel: NotebookPanel): ChangeLog {
  let log = logs.get(panel);
  if (log === undefined) {
    log = new ChangeLog();
    logs.set(panel, log);
  }
  return log;
}

/** Go to the first changed cell, whose line leads on to the others. */
export function reviewChanges(panel: NotebookPanel): void {
  panel.node.dispatchEvent(new CustomEvent(REVIEW));
}
