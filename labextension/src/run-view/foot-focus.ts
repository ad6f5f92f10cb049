import { Card } from "./card";
import { ask, focusFoot, focusedIn } from "./focus";
import { WAITING } from "./gate";

const FOOT = '[data-part="foot"]';

/** Keeps the focus on the foot after a key decided the last card: until another card comes, the run ends, or Esc. */
export class FootFocus {
  readonly #host: HTMLElement;
  readonly #root: HTMLElement;
  #awaitsNext = false;

  constructor(host: HTMLElement, root: HTMLElement) {
    this.#host = host;
    this.#root = root;
  }

  /** @param awaitsNext whether the next card is to take it from there. */
  take(awaitsNext: boolean): void {
    focusFoot(this.#root);
    this.#awaitsNext = awaitsNext;
  }

  /** After the kernel sent parts. */
  refresh(): void {
    const next = this.#isHere ? this.#root.querySelector<HTMLElement>(WAITING) : null;
    if (next !== null) {
      this.#awaitsNext = false;
      new Card(next).focus();
    }
  }

  /** Before the view goes: where the user was before takes the focus. */
  end(): void {
    if (this.#isHere) {
      this.#awaitsNext = false;
      ask(this.#root, "vibe-card-decided");
    }
  }

  /** Whether a key was pressed on the foot. A second Enter is for the next card: it must not write into a cell. */
  takes(event: KeyboardEvent): boolean {
    if (!(event.target instanceof Element && event.target.matches(FOOT)) || event.key === "Tab") {
      return false;
    }
    event.stopPropagation();
    if (event.key === "Escape" && event.isTrusted) {
      event.preventDefault();
      this.#awaitsNext = false;
      if (!ask(this.#root, "vibe-card-decided")) {
        this.#host.parentElement?.closest<HTMLElement>("[tabindex]")?.focus({ preventScroll: true }); // the cell
      }
    }
    return true;
  }

  get #isHere(): boolean {
    return this.#awaitsNext && focusedIn(this.#root)?.matches(FOOT) === true;
  }
}
