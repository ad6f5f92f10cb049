import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import type { Cell } from "@jupyterlab/cells";
import { IEditorServices } from "@jupyterlab/codeeditor";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ITranslator, nullTranslator } from "@jupyterlab/translation";

import { isPromptCell, numberOf } from "../cell-actions/cell-state";
import { type EditedText, HAS_EDITOR, OPEN_EDITOR } from "../full-editor/edited-text";
import { FullEditor } from "../full-editor/full-editor";

const CATEGORY = "vibe-jupyter";
const OPEN = "vibe-jupyter:open-prompt-in-editor";
const SAVE = "vibe-jupyter:save-editor";
const MAGIC_LINE = /^\s*%%vibe[^\n]*\n?/;

/** Prompts, and what cards propose, in a tab of their own. */
export const fullEditor: JupyterFrontEndPlugin<void> = {
  id: "vibe-jupyter:full-editor",
  description: "Opens a prompt, or what a card of the agent proposes, in a full editor.",
  autoStart: true,
  requires: [INotebookTracker, IEditorServices],
  optional: [ICommandPalette, ITranslator],
  activate: (
    app,
    tracker: INotebookTracker,
    services: IEditorServices,
    palette: ICommandPalette | null,
    translator: ITranslator | null,
  ) => {
    const words = (translator ?? nullTranslator).load("vibe_jupyter");
    const open = (edited: EditedText): void => { show(app, new FullEditor(edited, services, words)); };
    document.addEventListener(HAS_EDITOR, (event) => { event.preventDefault(); });
    document.addEventListener(OPEN_EDITOR, (event) => {
      event.preventDefault();
      open((event as CustomEvent<EditedText>).detail);
    });
    app.commands.addCommand(OPEN, {
      label: words.__("Open Prompt in Editor"),
      isEnabled: () => tracker.activeCell !== null && isPromptCell(tracker.activeCell.model),
      execute: () => {
        if (tracker.activeCell !== null) {
          open(promptOf(tracker.activeCell, words.__("Prompt")));
        }
      },
    });
    app.commands.addCommand(SAVE, {
      label: words.__("Save the text of the editor"),
      execute: () => {
        if (app.shell.currentWidget instanceof FullEditor) {
          app.shell.currentWidget.save();
        }
      },
    });
    palette?.addItem({ command: OPEN, category: CATEGORY });
  },
};

function show(app: JupyterFrontEnd, editor: FullEditor): void {
  editor.id = `vibe-full-editor-${crypto.randomUUID()}`;
  // The main area of Notebook 7 holds its notebook alone.
  app.shell.add(editor, app.name === "JupyterLab" ? "main" : "down", { mode: "split-right" });
  app.shell.activateById(editor.id);
  editor.content.editor.focus();
}

/** The prompt of a cell, without the line of the magic. */
function promptOf({ model }: Cell, label: string): EditedText {
  const { sharedModel } = model;
  const magic = (): string => MAGIC_LINE.exec(sharedModel.getSource())?.[0].trimEnd() ?? "";
  const number = numberOf(model);
  return {
    title: number === null ? label : `${label} [${number}]`,
    text: sharedModel.getSource().replace(MAGIC_LINE, ""),
    mimeType: "text/markdown",
    save: (text) => {
      if (!model.isDisposed) {
        sharedModel.setSource(`${magic()}\n${text}`);
      }
      return !model.isDisposed;
    },
  };
}
