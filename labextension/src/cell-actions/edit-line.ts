import type { Cell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";
import { type PanelLayout, Widget } from "@lumino/widgets";

import { errorOf, numberOf } from "./cell-state";
import { button, hint, key, textField } from "./elements";
import { vibeIcon } from "./icon";
import { nameOf } from "./prompts";
import type { PromptRunner } from "./run-prompt";

const ABOVE_INPUT = 1; // place in the cell, behind its header

/** The line over a cell that says how the agent is to edit it. */
export class EditLine extends Widget {
  readonly #panel: NotebookPanel;
  readonly #cell: Cell;
  readonly #runner: PromptRunner;
  readonly #field: HTMLTextAreaElement;

  /** Open it, or go back to the one that is open. */
  static open(panel: NotebookPanel, cell: Cell, runner: PromptRunner, words: TranslationBundle): void {
    const layout = cell.layout as PanelLayout;
    let line = layout.widgets.find((one) => one instanceof EditLine);
    if (line === undefined) {
      line = new EditLine(panel, cell, runner, words);
      layout.insertWidget(ABOVE_INPUT, line);
    }
    line.#field.focus();
  }

  private constructor(panel: NotebookPanel, cell: Cell, runner: PromptRunner, words: TranslationBundle) {
    super();
    this.#panel = panel;
    this.#cell = cell;
    this.#runner = runner;
    const number = numberOf(cell.model);
    const name = number === null ? words.__("Edit this cell") : words.__("Edit cell [%1]", number);
    const box = document.createElement("div");
    const field = textField(words.__("What should change?"));
    this.#field = field;
    field.value = errorOf(cell.model) === null ? "" : words.__("Fix this error");
    field.addEventListener("keydown", (event) => { this.#press(event); });
    const cancel = button(words.__("Cancel"), () => { this.#close(); });
    cancel.append(key("Esc"));
    const edit = button(words.__("Edit"), () => { this.#send(); }, true);
    edit.append(key("⏎"));
    box.className = "vibe-edit-line";
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", name);
    box.append(vibeIcon.element({ tag: "span" }), field, hint(name), cancel, edit);
    this.addClass("vibe-over-input");
    this.node.append(box);
  }

  #press(event: KeyboardEvent): void {
    if (event.isComposing || event.shiftKey || (event.key !== "Enter" && event.key !== "Escape")) {
      return;
    }
    event.preventDefault();
    if (event.key === "Enter") {
      this.#send();
    } else {
      this.#close();
    }
  }

  #send(): void {
    const instruction = this.#field.value.trim();
    if (instruction !== "") {
      this.#close();
      void this.#runner.ask(this.#panel, this.#cell, `Edit ${nameOf(numberOf(this.#cell.model))}: ${instruction}`);
    }
  }

  #close(): void {
    this.dispose();
    this.#panel.content.node.focus();
  }
}
