import type { ICellModel } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { Signal } from "@lumino/signaling";

import { cellModels, isCode } from "./notebook";

const LINK = 'a[href*="#cell-id="]';
const NAME = /^(?:\[\d+\]|cell \d+)$/;

/** Keeps what finished runs say they changed up to date: each cell has the name it has now, and a click goes there. */
export class KeptLinks {
  readonly #panel: NotebookPanel;
  #frame = 0;

  /** @param gone aborted when the notebook is closed. */
  constructor(panel: NotebookPanel, gone: AbortSignal) {
    this.#panel = panel;
    panel.node.addEventListener("click", (event) => { this.#follow(event); }, { capture: true, signal: gone });
    gone.addEventListener("abort", () => {
      cancelAnimationFrame(this.#frame);
      Signal.clearData(this);
    });
    void panel.context.ready.then(() => {
      if (!gone.aborted) {
        panel.content.model?.contentChanged.connect(this.#schedule, this);
        this.#schedule();
      }
    });
  }

  #schedule(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => { this.#draw(); });
  }

  #draw(): void {
    const links = Array.from(this.#panel.node.querySelectorAll<HTMLAnchorElement>(`.jp-OutputArea ${LINK}`));
    if (links.length === 0) {
      return;
    }
    const names = new Map(cellModels(this.#panel).map((model, place) => [model.id, nameOf(model, place)]));
    for (const link of links) {
      const label = link.querySelector("code") ?? link;
      const name = names.get(idIn(link));
      if (name !== undefined && name !== label.textContent && NAME.test(label.textContent)) {
        label.textContent = name;
      }
    }
  }

  #follow(event: MouseEvent): void {
    const link = event.target instanceof Element ? event.target.closest<HTMLAnchorElement>(LINK) : null;
    const detail = link === null ? "" : idIn(link);
    if (cellModels(this.#panel).some(({ id }) => id === detail)) {
      event.preventDefault();
      event.stopPropagation();
      this.#panel.node.dispatchEvent(new CustomEvent("vibe-cell-wanted", { detail }));
    }
  }
}

/** As the kernel names a cell: by its number, or by its place before it has one. */
function nameOf(model: ICellModel, place: number): string {
  const number = isCode(model) ? model.executionCount : null;
  return number === null ? `cell ${String(place + 1)}` : `[${String(number)}]`;
}

function idIn({ hash }: HTMLAnchorElement): string {
  return hash.replace("#cell-id=", "");
}
