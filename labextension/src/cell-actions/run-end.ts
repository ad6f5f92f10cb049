import { Clipboard } from "@jupyterlab/apputils";
import type { CodeCell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";
import { checkIcon, copyIcon, ellipsesIcon } from "@jupyterlab/ui-components";
import { CommandRegistry } from "@lumino/commands";
import { Menu } from "@lumino/widgets";

import { changesOf, reviewChanges } from "../changes/logs";
import type { ChangedRun } from "./cell-state";
import { button, iconButton, relabel } from "./elements";
import { keptEnd } from "./kept-end";
import { insertBelow, type PromptRunner } from "./run-prompt";
import { undoParts } from "./undo-run";
import { editAtEnd } from "./write";

const COPIED = 2000; // ms for which the button says so

/**
 * What can be done with a run that is over, on its own last lines: in the foot what the run can be used for, in the line
 * of its changes what can be done about those. Nothing of it is saved.
 */
export class RunEnd {
  readonly #panel: NotebookPanel;
  readonly #cell: CodeCell;
  readonly #runner: PromptRunner;
  readonly #words: TranslationBundle;
  readonly #tools = group("vibe-run-tools");
  readonly #more: HTMLElement;
  readonly #changes = group("vibe-run-changes");
  readonly #review: HTMLElement;
  readonly #drawn = new MutationObserver(() => { this.#place(); });
  #run = "";
  #retries: readonly HTMLElement[] = [];
  #isShown = false;
  #menu: Menu | null = null;

  constructor(panel: NotebookPanel, cell: CodeCell, runner: PromptRunner, words: TranslationBundle) {
    this.#panel = panel;
    this.#cell = cell;
    this.#runner = runner;
    this.#words = words;
    this.#more = this.#moreButton();
    this.#review = button(words.__("Review"), () => { reviewChanges(panel); });
    this.#review.title = words.__("Go to the first changed cell");
    this.#review.classList.add("vibe-action-quiet");
    this.#tools.append(this.#copyButton(), this.#more);
  }

  /**
   * @param isShown whether buttons are wanted here at all.
   * @param isNewest whether the conversation goes on from this run.
   * @param run what can be undone; null for nothing.
   * @param retries buttons of a run that failed or was stopped.
   */
  refresh(isShown: boolean, isNewest: boolean, run: ChangedRun | null, retries: readonly HTMLElement[]): void {
    this.#isShown = isShown;
    this.#more.hidden = !isNewest;
    if (retries !== this.#retries) {
      this.#retries.forEach((one) => { one.remove(); });
      this.#retries = retries;
      this.#tools.prepend(...retries);
    }
    const shown = JSON.stringify(run);
    if (shown !== this.#run) { // a new one would lose what Undo said
      this.#run = shown;
      this.#changes.replaceChildren(...(run === null ? [] : [this.#review, ...undoParts(this.#panel, run, this.#words)]));
    }
    this.#review.hidden = changesOf(this.#panel).isEmpty;
    this.#place();
  }

  dispose(): void {
    this.#drawn.disconnect();
    this.#menu?.dispose();
  }

  /** Put all where it belongs, also after the page has drawn the output once more. */
  #place(): void {
    this.#drawn.disconnect();
    const end = this.#isShown ? keptEnd(this.#cell) : null;
    put(this.#tools, end?.foot ?? null);
    put(this.#changes, this.#changes.hasChildNodes() ? end?.changed ?? end?.foot ?? null : null);
    if (this.#isShown) {
      this.#drawn.observe(this.#cell.outputArea.node, { childList: true, subtree: true });
    }
  }

  #copyButton(): HTMLElement {
    const copy = iconButton(copyIcon, this.#words.__("Copy answer"), () => {
      const end = keptEnd(this.#cell);
      if (end !== null) {
        Clipboard.copyToSystem(end.answer);
        relabel(copy, checkIcon, this.#words.__("Copied"));
        setTimeout(() => { relabel(copy, copyIcon, this.#words.__("Copy answer")); }, COPIED);
      }
    });
    return copy;
  }

  #moreButton(): HTMLElement {
    const more = iconButton(ellipsesIcon, this.#words.__("More"), () => {
      const { right, bottom } = more.getBoundingClientRect();
      this.#menu ??= this.#makeMenu();
      this.#menu.open(right, bottom, { horizontalAlignment: "right" });
    });
    more.setAttribute("aria-haspopup", "menu");
    return more;
  }

  /** Commands of `%vibe` about the conversation that this run belongs to, each in a cell below. */
  #makeMenu(): Menu {
    const words = this.#words;
    const commands = new CommandRegistry();
    const menu = new Menu({ commands });
    const add = (command: string, label: string, isWhole = true): void => {
      commands.addCommand(command, { label, execute: () => { this.#give(command, isWhole); } });
      menu.addItem({ command });
    };
    add("sent", words.__("Show What Was Sent"));
    add("report", words.__("Write a Methods Section"));
    add("rename", words.__("Rename Conversation…"), false);
    add("fork", words.__("Continue in a Copy"));
    add("model", words.__("Choose Another Model…"), false);
    return menu;
  }

  #give(command: string, isWhole: boolean): void {
    const cell = insertBelow(this.#panel, this.#cell, `%vibe ${command}${isWhole ? "" : " "}`);
    if (cell !== undefined) {
      void (isWhole ? this.#runner.run(this.#panel, cell) : editAtEnd(this.#panel, cell));
    }
  }
}

/** Buttons at the end of a line of the run. */
function group(name: string): HTMLElement {
  const made = document.createElement("span");
  made.className = `vibe-run-end ${name}`;
  return made;
}

function put(one: HTMLElement, line: HTMLElement | null): void {
  if (line === null) {
    one.remove();
  } else if (one.parentElement !== line) {
    line.classList.add("vibe-run-line");
    line.append(one);
  }
}
