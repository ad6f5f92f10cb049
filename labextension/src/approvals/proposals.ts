import type { NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";

import { waitingCards } from "./waiting";

const MARK = "data-vibe-proposed";
const LABEL = "--vibe-proposed"; // what the mark says, for the stylesheet

/** Mark the cells that a waiting card asks to change: what it shows is about them, and they may be far from it. */
export function markProposals(panel: NotebookPanel, words: TranslationBundle): void {
  const meant = new Set(waitingCards(panel).flatMap(({ changes }) => changes));
  for (const { model, node } of panel.content.widgets) {
    if (!meant.has(model.id)) {
      node.removeAttribute(MARK);
    } else if (!node.hasAttribute(MARK)) {
      node.setAttribute(MARK, "");
      node.style.setProperty(LABEL, JSON.stringify(words.__("Change waits for your approval")));
    }
  }
}
