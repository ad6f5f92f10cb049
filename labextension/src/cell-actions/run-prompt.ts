import { Dialog, showDialog } from "@jupyterlab/apputils";
import type { Cell } from "@jupyterlab/cells";
import { NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";

import { promptSource } from "./prompts";

const LOAD = "get_ipython().extension_manager.load_extension('vibe_jupyter') and None";

/**
 * Asks the agent from a button: in a cell of its own right below the one that is meant. So the prompt stays in the
 * notebook, where it can be read, changed and run again, and what the cell above shows stays beside it.
 */
export class PromptRunner {
  readonly #words: TranslationBundle;

  constructor(words: TranslationBundle) {
    this.#words = words;
  }

  /** Put in a cell with this prompt and run it. */
  async ask(panel: NotebookPanel, above: Cell, prompt: string): Promise<void> {
    const cell = insertBelow(panel, above, promptSource(prompt));
    if (cell !== undefined) {
      await this.run(panel, cell);
    }
  }

  /** Run a cell that asks the agent; the kernel gets the magic first where it has none yet. */
  async run(panel: NotebookPanel, cell: Cell): Promise<void> {
    const { content, sessionContext } = panel;
    await sessionContext.ready;
    const loading = loadMagic(panel);
    if (sessionContext.session?.kernel?.status === "idle" && !(await loading)) {
      return this.#nameInstallation();
    }
    await content.scrollToCell(cell);
    await NotebookActions.runCells(content, [cell], sessionContext);
  }

  async #nameInstallation(): Promise<void> {
    await showDialog({
      title: this.#words.__("Vibe is not installed for this kernel"),
      body: this.#words.__("Install it in the kernel's environment as you did for JupyterLab, then try again."),
      buttons: [Dialog.okButton()],
    });
  }
}

/** A new cell below another one, the active cell from now on. */
export function insertBelow({ content }: NotebookPanel, above: Cell, source: string): Cell | undefined {
  const place = content.widgets.indexOf(above);
  if (place < 0 || content.model === null || content.model.readOnly) {
    return undefined;
  }
  content.model.sharedModel.insertCell(place + 1, { cell_type: "code", source, metadata: { trusted: true } });
  content.activeCellIndex = place + 1;
  content.deselectAll();
  return content.widgets[place + 1];
}

/**
 * Load the magic where it is not loaded; false where it cannot be. The request is silent, so it prints and counts nothing,
 * and a kernel that is busy does it before the cell that is sent next.
 */
export async function loadMagic({ sessionContext }: NotebookPanel): Promise<boolean> {
  const kernel = sessionContext.session?.kernel;
  const reply = await kernel?.requestExecute({ code: LOAD, silent: true, store_history: false, allow_stdin: false }).done;
  return reply?.content.status !== "error";
}
