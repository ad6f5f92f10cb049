import { CodeCell, type Cell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";

import { cardsIn } from "./waiting";

const VIEW = "vibe-run-host"; // while the run goes on

/** The views of runs in one notebook, also of those whose cell was deleted, or shows no outputs now. */
export class Strays {
  readonly #panel: NotebookPanel;
  readonly #views = new Map<HTMLElement, Cell>();

  constructor(panel: NotebookPanel) {
    this.#panel = panel;
  }

  /** Whether a card waits in a cell that was deleted: nobody can answer it. */
  get wait(): boolean {
    return this.#waiting().some((cell) => cell.isDisposed);
  }

  /** Whether a card waits in outputs that are collapsed. */
  get areHidden(): boolean {
    return this.#waiting().some(isCollapsed);
  }

  /** Show the outputs again in which a card waits. */
  reveal(): void {
    this.#waiting().filter(isCollapsed).forEach((cell) => { cell.outputHidden = false; });
  }

  /** The cells whose view has a card that waits. */
  #waiting(): Cell[] {
    for (const cell of this.#panel.content.widgets) {
      cell.node.querySelectorAll<HTMLElement>(`.${VIEW}`).forEach((view) => { this.#views.set(view, cell); });
    }
    for (const view of this.#views.keys()) {
      if (!view.classList.contains(VIEW)) {
        this.#views.delete(view);
      }
    }
    return Array.from(this.#views).filter(([view]) => cardsIn(view).length > 0).map(([, cell]) => cell);
  }
}

function isCollapsed(cell: Cell): cell is CodeCell {
  return cell instanceof CodeCell && !cell.isDisposed && cell.outputHidden;
}
