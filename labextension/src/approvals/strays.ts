import type { Cell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";

import { cardsIn } from "./waiting";

const VIEW = "vibe-run-host"; // while the run goes on

/** The views of runs in one notebook, also of those whose cell was deleted: such a run waits for nobody's answer. */
export class Strays {
  readonly #panel: NotebookPanel;
  readonly #views = new Map<HTMLElement, Cell>();

  constructor(panel: NotebookPanel) {
    this.#panel = panel;
  }

  /** Whether a card waits in a cell that was deleted. */
  get wait(): boolean {
    for (const cell of this.#panel.content.widgets) {
      cell.node.querySelectorAll<HTMLElement>(`.${VIEW}`).forEach((view) => { this.#views.set(view, cell); });
    }
    for (const view of this.#views.keys()) {
      if (!view.classList.contains(VIEW)) {
        this.#views.delete(view);
      }
    }
    return Array.from(this.#views).some(([view, cell]) => cell.isDisposed && cardsIn(view).length > 0);
  }
}
