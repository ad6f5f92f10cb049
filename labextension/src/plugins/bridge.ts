import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { CodeCell } from "@jupyterlab/cells";
import { INotebookCellExecutor, INotebookTracker, NotebookActions } from "@jupyterlab/notebook";

import { dropDeadBoxes } from "../bridge/boxes";
import { Connection } from "../bridge/connection";
import { holdOutputs } from "../bridge/held-outputs";

const PROMPT = /^[^\n#'"]*%vibe\b/m; // as in a cell that runs the agent

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
    NotebookActions.executionScheduled.connect((_, { cell }) => {
      holdOutputs(cell.model);
    });
    NotebookActions.executed.connect((_, { cell }) => {
      if (cell instanceof CodeCell && !cell.isDisposed && PROMPT.test(cell.model.sharedModel.getSource())) {
        dropDeadBoxes(cell);
      }
    });
  },
};
