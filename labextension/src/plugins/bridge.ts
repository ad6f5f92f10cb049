import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { INotebookCellExecutor, INotebookTracker } from "@jupyterlab/notebook";

import { Connection } from "../bridge/connection";

/** Lets the agent in the kernel see and change the notebook that is open here. */
export const bridge: JupyterFrontEndPlugin<void> = {
  id: "vibe-jupyter:bridge",
  description: "Answers the agent in the kernel: reads, edits and runs cells of the open notebook.",
  autoStart: true,
  requires: [INotebookTracker, INotebookCellExecutor],
  activate: (app, tracker: INotebookTracker, executor: INotebookCellExecutor) => {
    tracker.widgetAdded.connect((_, panel) => {
      new Connection(app, panel, executor);
    });
  },
};
