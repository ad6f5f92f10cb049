import { CAN_KEEP, KEEP_CODE, offerToKeep } from "../code-steps/shown-code";

/** Lets the code of an opened step become a cell, where the page around the view can make one. */
export class CodeKeeper {
  readonly #host: HTMLElement;
  readonly #root: HTMLElement;

  /** @param gone aborted when the view is removed. */
  constructor(host: HTMLElement, root: HTMLElement, gone: AbortSignal) {
    this.#host = host;
    this.#root = root;
    root.addEventListener("toggle", () => { this.refresh(); }, { capture: true, signal: gone });
  }

  /** Give the steps that are open a button. */
  refresh(): void {
    const steps = this.#root.querySelectorAll<HTMLDetailsElement>("details.vibe-step[open]");
    if (steps.length > 0 && this.#ask(CAN_KEEP)) {
      steps.forEach((step) => { offerToKeep(step, "vibe-button vibe-keep-code", (code) => this.#ask(KEEP_CODE, code)); });
    }
  }

  /** Whether the page took it. */
  #ask(name: string, detail?: string): boolean {
    return !this.#host.dispatchEvent(new CustomEvent(name, { bubbles: true, cancelable: true, detail }));
  }
}
