import type { NotebookPanel } from "@jupyterlab/notebook";
import { Signal } from "@lumino/signaling";

import { waitingCards } from "../approvals/waiting";

const PAUSE = 500; // ms between two messages, so that what is being typed needs a few

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
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (waitingCards(this.#panel).length > 0) {
        this.#tell();
      }
    }, PAUSE);
  }
}
