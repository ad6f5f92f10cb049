import type { TranslationBundle } from "@jupyterlab/translation";

import { badged } from "./order";

/** A card, and how to get to it. */
export interface Noticed {
  id: string;
  title: string;
  /** The name of its notebook. */
  place: string;
  open: () => void;
}

/** Says of cards that wait while the page is hidden: by a notification where those are allowed, else in the title. */
export class Notifier {
  readonly #words: TranslationBundle;
  readonly #shown = new Map<string, Notification | null>();
  /** JupyterLab rewrites the title whenever a document is saved, renamed or brought to the front. */
  readonly #title = new MutationObserver(() => { this.#mark(); });

  constructor(words: TranslationBundle) {
    this.#words = words;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) {
        this.#clear();
      }
    });
  }

  /** These cards wait now. */
  update(cards: readonly Noticed[]): void {
    const waiting = new Set(cards.map(({ id }) => id));
    for (const [id, notification] of this.#shown) {
      if (!waiting.has(id)) {
        notification?.close();
        this.#shown.delete(id);
      }
    }
    if (document.hidden) {
      cards.filter(({ id }) => !this.#shown.has(id)).forEach((card) => { this.#shown.set(card.id, this.#notify(card)); });
    }
    this.#mark();
  }

  /** Say in the title how many cards wait that no notification tells of, and keep it there while any does. */
  #mark(): void {
    const waiting = Array.from(this.#shown.values()).filter((one) => one === null).length;
    const title = badged(document.title, waiting);
    if (document.title !== title) {
      document.title = title;
    }
    if (waiting > 0) {
      this.#title.observe(document.head, { childList: true, characterData: true, subtree: true });
    } else {
      this.#title.disconnect();
    }
  }

  #notify({ id, title, place, open }: Noticed): Notification | null {
    if (!("Notification" in window) || Notification.permission !== "granted") {
      return null;
    }
    const shown = new Notification(this.#words.__("Vibe needs your approval"), { body: `${title} · ${place}`, tag: id });
    shown.addEventListener("click", () => {
      window.focus();
      open();
      shown.close();
    });
    return shown;
  }

  #clear(): void {
    this.#shown.forEach((notification) => { notification?.close(); });
    this.#shown.clear();
    this.#mark();
  }
}
