import type { NotebookPanel } from "@jupyterlab/notebook";
import { Signal } from "@lumino/signaling";

import { waitingCards } from "../approvals/waiting";

const PAUSE = 1000; // ms without a change: one message for what is being typed

/** Tells the kernel that cells change while a card waits: what the card shows may be no more. */
export class EditTeller {
  readonly #panel: NotebookPanel;
  readonly #tell: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param gone aborted when the notebook is closed. */
  constructor(panel: NotebookPanel, tell: () => void, gone: AbortSignal) {
    this.#panel = panel;
    this.#tell = tell;
    gone.addEventListener("abort", () => {
      clearTimeout(this.#timer);
      Signal.clearData(this);
    });
    void panel.context.ready.then(() => {
      if (!gone.aborted) {
        panel.content.model?.contentChanged.connect(this.#schedule, this);
      }
    });
  }

  #schedule(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (waitingCards(this.#panel).length > 0) {
        this.#tell();
      }
    }, PAUSE);
  }
}
