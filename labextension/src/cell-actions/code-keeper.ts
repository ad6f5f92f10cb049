import type { NotebookPanel } from "@jupyterlab/notebook";

import { CAN_KEEP, KEEP_CODE, offerToKeep } from "../code-steps/shown-code";
import { signKept } from "./kept-origin";
import { insertBelow } from "./run-prompt";

/** Makes a cell of code that a run shows, when the user asks for it: below the run, and not run. */
export class CodeKeeper {
  readonly #panel: NotebookPanel;

  constructor(panel: NotebookPanel) {
    this.#panel = panel;
    const { node } = panel;
    node.addEventListener(CAN_KEEP, (event) => {
      if (panel.content.model?.readOnly === false) {
        event.preventDefault();
      }
    });
    node.addEventListener(KEEP_CODE, (event) => {
      if (this.#keep(event.target, (event as CustomEvent<string>).detail)) {
        event.preventDefault();
      }
    });
    node.addEventListener("toggle", ({ target }) => {
      if (target instanceof HTMLDetailsElement && target.open && target.closest(".jp-OutputArea") !== null) {
        offerToKeep(target, "vibe-action vibe-keep-code", (code) => this.#keep(target, code));
      }
    }, { capture: true });
  }

  #keep(from: EventTarget | null, code: string): boolean {
    const { content } = this.#panel;
    const above = content.widgets.find(({ node }) => from instanceof Node && node.contains(from));
    const cell = above && insertBelow(this.#panel, above, code);
    if (above === undefined || cell === undefined) {
      return false;
    }
    signKept(cell.model, code, above.model);
    content.mode = "command";
    content.node.focus();
    void content.scrollToCell(cell);
    return true;
  }
}
