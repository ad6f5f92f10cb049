import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { EditorExtensionRegistry, IEditorExtensionRegistry } from "@jupyterlab/codemirror";
import { INotebookTracker } from "@jupyterlab/notebook";
import { EditorView } from "@codemirror/view";

import { keepPicture, takesPictures } from "../prompt-cells/pictures";
import { followLanguage } from "../prompt-cells/language";
import { isPromptText, prose } from "../prompt-cells/prose";
import { adoptStyles } from "../styles";
import styles from "../../style/prompt-cells.css";

const COMPLETE = "completer:invoke-notebook";

/** Cells that begin with `%%vibe` are written and read as prose. */
export const promptCells: JupyterFrontEndPlugin<void> = {
  id: "vibe-jupyter:prompt-cells",
  description: "Shows %%vibe cells as prose, completes what they name with @, and takes pictures.",
  autoStart: true,
  requires: [IEditorExtensionRegistry, INotebookTracker],
  activate: (app, extensions: IEditorExtensionRegistry, tracker: INotebookTracker) => {
    adoptStyles(styles);
    const { contents } = app.serviceManager;
    const pictures = takesPictures((picture) => {
      const path = tracker.currentWidget?.context.path ?? "";
      return keepPicture(contents, path.slice(0, Math.max(0, path.lastIndexOf("/"))), picture);
    });
    const completes = EditorView.updateListener.of(({ transactions, state }) => {
      const typed = transactions.some((one) => one.isUserEvent("input.type") && endsWithAt(one.changes));
      if (typed && isPromptText(state.doc) && app.commands.hasCommand(COMPLETE)) {
        setTimeout(() => void app.commands.execute(COMPLETE)); // an editor cannot be asked while it changes
      }
    });
    extensions.addExtension({
      name: "vibe-jupyter:prompt-cells",
      factory: ({ model }) => {
        if (!("type" in model) || model.type !== "code") {
          return null; // no cell of code
        }
        followLanguage(model);
        return EditorExtensionRegistry.createImmutableExtension([prose, pictures, completes]);
      },
    });
  },
};

/** Whether the last thing that was put in is an `@`. */
function endsWithAt(changes: { iterChanges: EditorChanges }): boolean {
  let found = false;
  changes.iterChanges((_from, _to, _start, _end, inserted) => {
    found = inserted.toString() === "@";
  });
  return found;
}

type EditorChanges = (each: (from: number, to: number, start: number, end: number, inserted: { toString(): string }) => void) => void;
