import type { NotebookPanel } from "@jupyterlab/notebook";

import { ChangeLog } from "./change-log";

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
