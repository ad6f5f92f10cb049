import { NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";
import { Widget } from "@lumino/widgets";

import { neighbour } from "./order";
import { markProposals } from "./proposals";
import { badge } from "./badge";
import { Strays } from "./strays";
import { waitingCards } from "./waiting";

const NAME = "vibe-approval";

/** Leads to the cards of one notebook that wait, and back to where the user was. */
export class ApprovalGuide {
  readonly #panel: NotebookPanel;
  readonly #words: TranslationBundle;
  readonly #strays: Strays;
  readonly #label = document.createElement("span");
  readonly #key = document.createElement("kbd");
  readonly #chip: Widget;
  #home: { index: number; mode: "command" | "edit" } | null = null; // before the first jump

  constructor(panel: NotebookPanel, words: TranslationBundle) {
    this.#panel = panel;
    this.#words = words;
    this.#strays = new Strays(panel);
    this.#chip = chip(this.#label, this.#key, () => { this.#press(); });
    this.#chip.hide();
    if (!panel.toolbar.insertAfter("spacer", NAME, this.#chip)) {
      panel.toolbar.addItem(NAME, this.#chip);
    }
  }

  /** Say in toolbar, tab and cells that a card waits, or the form that connects a model. */
  refresh(): void {
    const cards = waitingCards(this.#panel);
    const isStray = this.#strays.wait && !this.waits; // in this order: the one takes note of the views there are
    const isForm = cards.length > 0 && cards.every(({ kind }) => kind === "connect");
    this.#label.textContent = isStray ? this.#words.__("Vibe waits in a cell that is gone")
      : isForm ? this.#words.__("Vibe needs a model") : this.#words.__("Vibe needs your approval");
    this.#key.textContent = isStray ? this.#words.__("Stop") : "F8";
    this.#chip.node.title = isStray ? this.#words.__("Stops the run. Undo brings a deleted cell back.") : "";
    this.#chip.setHidden(!this.waits && !isStray);
    badge(this.#panel.title, this.waits || isStray);
    markProposals(this.#panel, this.#words);
  }

  /** Whether a card waits that can be answered. */
  get waits(): boolean {
    return waitingCards(this.#panel).length > 0 || this.#strays.areHidden;
  }

  #press(): void {
    if (this.waits) {
      void this.go(1);
    } else if (this.#strays.wait) {
      void this.#panel.sessionContext.session?.kernel?.interrupt();
    }
  }

  /**
   * Give the focus to the next card, or to the one before.
   *
   * @param isOnTheWay whether it comes from a card that was just decided, so that where the user was before stays known.
   */
  async go(step: 1 | -1, isOnTheWay = false): Promise<boolean> {
    this.#strays.reveal();
    const cards = waitingCards(this.#panel);
    const from = cards.find(({ hasFocus }) => hasFocus)?.id ?? null;
    const id = neighbour(cards.map((card) => card.id), from, step);
    const card = cards.find((one) => one.id === id);
    if (card === undefined) {
      return false;
    }
    const { content } = this.#panel;
    if (from === null && !isOnTheWay) {
      this.#home = { index: content.activeCellIndex, mode: content.mode };
    }
    if (card.cell.isHidden) { // below a heading that is collapsed
      NotebookActions.expandParent(card.cell, content);
    }
    if (!card.host.isConnected) {
      await content.scrollToCell(card.cell);
    }
    card.host.dispatchEvent(new CustomEvent("vibe-focus-card", { detail: card.id }));
    return true;
  }

  /**
   * After a decision: to the next card, else back to where the user was before. False where neither is known.
   *
   * @param stays whether a run may ask for more, so that the focus stays with it rather than going back.
   */
  goOn(stays: boolean): boolean {
    if (waitingCards(this.#panel).length > 0) {
      void this.go(1, true);
      return true;
    }
    const home = this.#home;
    if (home === null || stays) {
      return false;
    }
    this.#home = null;
    const { content } = this.#panel;
    content.activeCellIndex = home.index;
    content.mode = home.mode;
    content.activate();
    return true;
  }
}

function chip(label: HTMLElement, key: HTMLElement, press: () => void): Widget {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "vibe-approval-chip";
  button.setAttribute("aria-keyshortcuts", "F8");
  key.setAttribute("aria-hidden", "true");
  button.append(label, key);
  button.addEventListener("click", press);
  const widget = new Widget();
  widget.addClass("vibe-approval-item");
  widget.node.append(button);
  return widget;
}
