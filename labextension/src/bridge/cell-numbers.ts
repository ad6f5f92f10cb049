import type { NotebookPanel } from "@jupyterlab/notebook";

import { cellModels } from "./notebook";

const FLASH = 900; // ms in which a cell that was gone to stands out

/** Tells the run views of a notebook which number each cell has now, and goes to the one that is wanted. */
export class CellNumbers {
  readonly #panel: NotebookPanel;

  constructor(panel: NotebookPanel, gone: AbortSignal) {
    this.#panel = panel;
    const { node } = panel;
    node.addEventListener("vibe-cells", ({ target }) => { this.#tell([target as Element]); }, { signal: gone });
    node.addEventListener("vibe-cell-wanted", (event) => {
      void this.#show((event as CustomEvent<string>).detail);
    }, { signal: gone });
    void panel.context.ready.then(() => {
      if (!gone.aborted) {
        panel.content.model?.cells.changed.connect(this.#onCells, this);
      }
    });
  }

  #onCells(): void {
    this.#tell(Array.from(this.#panel.node.querySelectorAll(".vibe-run-host")));
  }

  #tell(views: readonly Element[]): void {
    if (views.length > 0) {
      const detail = new Map(cellModels(this.#panel).map(({ id }, place) => [id, place + 1]));
      views.forEach((view) => view.dispatchEvent(new CustomEvent("vibe-cell-numbers", { detail })));
    }
  }

  async #show(id: string): Promise<void> {
    const notebook = this.#panel.content;
    const cell = notebook.widgets.find(({ model }) => model.id === id);
    if (cell !== undefined) {
      notebook.activeCellIndex = notebook.widgets.indexOf(cell);
      await notebook.scrollToCell(cell);
      if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
        const edge = "inset 0 0 0 2px";
        cell.node.animate([{ boxShadow: `${edge} var(--jp-brand-color1)` }, { boxShadow: `${edge} transparent` }], FLASH);
      }
    }
  }
}
