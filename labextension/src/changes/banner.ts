import type { TranslationBundle } from "@jupyterlab/translation";
import { checkIcon, deleteIcon, undoIcon } from "@jupyterlab/ui-components";
import { Widget } from "@lumino/widgets";

import { button, hint } from "../cell-actions/elements";
import { vibeIcon } from "../cell-actions/icon";
import { lineCounts, type CellChange } from "./change-log";

/** What the buttons of a banner do. */
export interface BannerActions {
  keep: () => void;
  undo: () => void;
  /** To the next changed cell, or the one before. */
  go: (step: 1 | -1) => void;
}

/** The line over a cell that the agent changed. Nothing of it is saved. */
export class ChangeBanner extends Widget {
  readonly #words: TranslationBundle;
  readonly #actions: BannerActions;
  readonly #box = document.createElement("div");
  readonly #keep: HTMLButtonElement;
  #shown = "";

  constructor(actions: BannerActions, words: TranslationBundle) {
    super();
    this.#actions = actions;
    this.#words = words;
    this.#keep = button(words.__("Keep"), actions.keep);
    this.#keep.prepend(checkIcon.element({ tag: "span" }));
    this.#box.className = "vibe-change";
    this.#box.setAttribute("role", "group");
    this.addClass("vibe-over-input");
    this.node.append(this.#box);
  }

  /** Show a change as the one of that place, from 1, among all of the notebook. */
  display(change: CellChange, place: number, all: number): void {
    const { added, removed } = lineCounts(change.before ?? "", change.after);
    const isNew = change.before === null;
    const shown = JSON.stringify([isNew, added, removed, place, all]);
    if (shown === this.#shown) {
      return;
    }
    this.#shown = shown;
    const words = this.#words;
    const name = isNew ? words.__("Added by Vibe") : words.__("Changed by Vibe");
    const title = document.createElement("b");
    title.textContent = name;
    const parts: HTMLElement[] = [vibeIcon.element({ tag: "span" }), title];
    if (!isNew) {
      const counts = hint("");
      counts.append(part("vibe-added", `+${String(added)}`), " ", part("vibe-removed", `−${String(removed)}`));
      counts.setAttribute("aria-label", words.__("%1 lines added, %2 removed", added, removed));
      counts.setAttribute("role", "img");
      parts.push(counts);
    }
    if (all > 1) {
      parts.push(hint(words.__("%1 of %2", place, all)), this.#arrow(-1), this.#arrow(1));
    }
    const space = document.createElement("span");
    space.className = "vibe-change-space";
    const undo = button(isNew ? words.__("Remove") : words.__("Undo"), this.#actions.undo);
    undo.prepend((isNew ? deleteIcon : undoIcon).element({ tag: "span" }));
    this.#box.setAttribute("aria-label", all > 1 ? words.__("%1, %2 of %3", name, place, all) : name);
    this.#box.replaceChildren(...parts, space, undo, this.#keep);
  }

  /** Give the focus to the button that goes on in this direction, or to the last one where no other change waits. */
  focusArrow(step: 1 | -1): void {
    (this.node.querySelector<HTMLElement>(`[data-step="${String(step)}"]`) ?? this.#keep).focus();
  }

  #arrow(step: 1 | -1): HTMLButtonElement {
    const arrow = button(step === 1 ? "↓" : "↑", () => { this.#actions.go(step); });
    const label = step === 1 ? this.#words.__("Next change") : this.#words.__("Previous change");
    arrow.setAttribute("aria-label", label);
    arrow.title = label;
    arrow.dataset.step = String(step);
    return arrow;
  }
}

function part(name: string, text: string): HTMLElement {
  const made = document.createElement("span");
  made.className = name;
  made.textContent = text;
  return made;
}
