import type { CodeCell, ICellModel } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";
import { type PanelLayout, Widget } from "@lumino/widgets";

import { isRunning } from "../bridge/notebook";
import { changedRunOf, hasFailed, isPromptCell, isPython, numberOf, offerOf, type Offer } from "./cell-state";
import { button, hint, key, textField } from "./elements";
import { vibeIcon } from "./icon";
import { promptFor, type Request } from "./prompts";
import type { PromptRunner } from "./run-prompt";
import { RunEnd } from "./run-end";

const CONTINUE = "Continue.";

/** Which offers a user wants to see. */
export interface Wanted {
  errors: boolean;
  followUp: boolean;
}

/** The line below the output of one code cell: what can be asked of the agent about it, or after it. Nothing of it is saved. */
export class UnderOutput extends Widget {
  readonly #panel: NotebookPanel;
  readonly #cell: CodeCell;
  readonly #runner: PromptRunner;
  readonly #words: TranslationBundle;
  readonly #end: RunEnd;
  #retries: readonly HTMLElement[] = [];
  #shown: Offer = null;

  constructor(panel: NotebookPanel, cell: CodeCell, runner: PromptRunner, words: TranslationBundle) {
    super();
    this.#panel = panel;
    this.#cell = cell;
    this.#runner = runner;
    this.#words = words;
    this.#end = new RunEnd(panel, cell, runner, words);
    this.addClass("vibe-under-output");
    this.hide();
    const layout = cell.layout as PanelLayout;
    layout.insertWidget(layout.widgets.length - 1, this); // what stands last is the cell's footer
  }

  /** Show what the cell offers now. */
  refresh(newest: ICellModel | null, wanted: Wanted): void {
    const { model } = this.#cell;
    const offer = this.#wantedOffer(offerOf(model, newest), wanted);
    if (offer !== this.#shown) { // a new box would lose what was typed
      this.#shown = offer;
      this.#retries = offer === "retry" ? this.#retryButtons() : [];
      this.node.replaceChildren(...(offer === null || offer === "retry" ? [] : this.#draw(offer)));
      this.setHidden(offer === null || offer === "retry");
    }
    const isShown = !this.#isHidden && isPromptCell(model) && !isRunning(model);
    this.#end.refresh(isShown, model === newest, isShown && model === newest ? changedRunOf(model) : null, this.#retries);
  }

  override dispose(): void {
    this.#end.dispose();
    super.dispose();
  }

  #wantedOffer(offer: Offer, { errors, followUp }: Wanted): Offer {
    return this.#isHidden || !(offer === "fix" ? errors : followUp) ? null : offer;
  }

  get #isHidden(): boolean {
    return this.#cell.outputHidden || this.#panel.content.model?.readOnly === true || !isPython(this.#panel);
  }

  #draw(offer: "fix" | "follow-up"): HTMLElement[] {
    const words = this.#words;
    if (offer === "fix") {
      const fix = button(words.__("Fix with Vibe"), () => { this.#request("fix"); });
      fix.prepend(vibeIcon.element({ tag: "span" }));
      return [
        fix,
        button(words.__("Explain"), () => { this.#request("explain"); }),
        hint(words.__("Sends this cell and its error to your model")),
      ];
    }
    return [this.#followUpBox()];
  }

  #retryButtons(): HTMLElement[] {
    return [
      button(this.#words.__("Continue"), () => { this.#ask(CONTINUE); }, hasFailed(this.#cell.model)),
      button(this.#words.__("Try again"), () => void this.#runner.run(this.#panel, this.#cell)),
    ];
  }

  #followUpBox(): HTMLElement {
    const box = document.createElement("div");
    const field = textField(this.#words.__("Ask a follow-up…"));
    const send = (): void => {
      const prompt = field.value.trim();
      if (prompt !== "") {
        field.value = "";
        this.#ask(prompt);
      }
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      } else if (event.key === "Escape") {
        this.#panel.content.node.focus();
      }
    });
    const sending = button(this.#words.__("Send"), send);
    sending.append(key("⇧⏎"));
    box.className = "vibe-follow-up";
    box.append(field, sending);
    return box;
  }

  #request(request: Request): void {
    this.#ask(promptFor(request, numberOf(this.#cell.model)));
  }

  #ask(prompt: string): void {
    void this.#runner.ask(this.#panel, this.#cell, prompt);
  }
}
