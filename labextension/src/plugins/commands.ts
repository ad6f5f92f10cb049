import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { Dialog, ICommandPalette, showDialog } from "@jupyterlab/apputils";
import { INotebookTracker, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import { ITranslator, nullTranslator, type TranslationBundle } from "@jupyterlab/translation";
import type { CommandRegistry } from "@lumino/commands";

import { MAGIC, promptSource } from "../cell-actions/prompts";
import { editAtEnd } from "../cell-actions/write";

const CATEGORY = "vibe-jupyter";
const TERMINAL = "terminal:create-new";

/** A few entries of the command palette. */
export const commands: JupyterFrontEndPlugin<void> = {
  id: "vibe-jupyter:commands",
  description: "Commands: insert a %%vibe cell, stop the agent, open the settings.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ITranslator],
  activate: (app, tracker: INotebookTracker, palette: ICommandPalette | null, translator: ITranslator | null) => {
    const words = (translator ?? nullTranslator).load("vibe_jupyter");
    const isEnabled = (): boolean => tracker.currentWidget !== null;
    app.commands.addCommand("vibe-jupyter:insert-cell", {
      label: words.__("Insert a %1 cell", MAGIC), // in a message %% stands for %
      isEnabled,
      execute: () => {
        if (tracker.currentWidget !== null) {
          insertPrompt(tracker.currentWidget);
        }
      },
    });
    app.commands.addCommand("vibe-jupyter:stop", {
      label: words.__("Stop the agent"),
      isEnabled,
      execute: () => tracker.currentWidget?.sessionContext.session?.kernel?.interrupt(),
    });
    app.commands.addCommand("vibe-jupyter:settings", {
      label: words.__("Open the settings of vibe-jupyter"),
      execute: () => showSettings(app.commands, words),
    });
    for (const command of ["vibe-jupyter:insert-cell", "vibe-jupyter:stop", "vibe-jupyter:settings"]) {
      palette?.addItem({ command, category: CATEGORY });
    }
  },
};

/** A new cell below, the caret where the prompt goes. */
function insertPrompt(panel: NotebookPanel): void {
  NotebookActions.insertBelow(panel.content);
  const cell = panel.content.activeCell;
  if (cell !== null) {
    cell.model.sharedModel.setSource(promptSource(""));
    void editAtEnd(panel, cell);
  }
}

/** The file lies where the kernel runs, outside the folder that the page can open files of. */
async function showSettings(registry: CommandRegistry, words: TranslationBundle): Promise<void> {
  const terminal = registry.hasCommand(TERMINAL) ? [Dialog.okButton({ label: words.__("Open a terminal") })] : [];
  const { button } = await showDialog({
    title: words.__("Settings of vibe-jupyter"),
    body: words.__(
      "They are in the file ~/.vibe/config.toml (or $VIBE_HOME/config.toml) on the machine where the kernel runs. " +
      "%vibe help and %vibe status in a cell show what can be set and what holds now.",
    ),
    buttons: [Dialog.cancelButton({ label: words.__("Close") }), ...terminal],
  });
  if (button.accept) {
    await registry.execute(TERMINAL);
  }
}
