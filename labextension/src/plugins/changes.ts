import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { EditorExtensionRegistry, IEditorExtensionRegistry } from "@jupyterlab/codemirror";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ITranslator, nullTranslator } from "@jupyterlab/translation";

import { ChangeBanners } from "../changes/banners";
import { changedLines } from "../changes/changed-lines";
import { adoptStyles } from "../styles";
import styles from "../../style/changes.css";

/** A line over each cell that a run changed, and the changed lines in it: keep it, undo it, go to the next. */
export const changes: JupyterFrontEndPlugin<void> = {
  id: "vibe-jupyter:changes",
  description: "Shows which cells the agent changed, to keep or to undo each.",
  autoStart: true,
  requires: [INotebookTracker, IEditorExtensionRegistry],
  optional: [ITranslator],
  activate: (_, tracker: INotebookTracker, extensions: IEditorExtensionRegistry, translator: ITranslator | null) => {
    const words = (translator ?? nullTranslator).load("vibe_jupyter");
    adoptStyles(styles);
    extensions.addExtension({
      name: "vibe-jupyter:changed-lines",
      factory: () => EditorExtensionRegistry.createImmutableExtension(changedLines),
    });
    tracker.forEach((panel) => { new ChangeBanners(panel, words); });
    tracker.widgetAdded.connect((__, panel) => { new ChangeBanners(panel, words); });
  },
};
