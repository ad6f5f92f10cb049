import { Figures } from "./figures";

const TICK = 1000; // ms
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/**
 * Counts between two words of the kernel: the seconds in the foot, those of steps that run, and down those of a wait.
 * Nothing of it is announced. Who wants little to move sees the foot count alone.
 */
export class Clock {
  readonly #root: HTMLElement;
  readonly #figures = new Figures();

  /** @param gone aborted when the view is removed. */
  constructor(root: HTMLElement, gone: AbortSignal) {
    this.#root = root;
    const timer = setInterval(() => {
      this.refresh();
    }, TICK);
    gone.addEventListener("abort", () => { clearInterval(timer); });
  }

  /** Bring the shown seconds up to date, also right after the kernel said a new figure. */
  refresh(): void {
    this.#each("data-vibe-countdown", (told, since) => leftInWords(told - since));
    if (this.#root.querySelector(stillGoing) === null) {
      return;
    }
    this.#each("data-vibe-clock", (told, since) => inWords(told + since));
    this.#each("data-vibe-running", (told, since) => calm.matches || told + since < 1 ? "" : inWords(told + since));
  }

  /** Write into the places with this attribute what the kernel's figure and the seconds since come to. */
  #each(name: string, words: (told: number, since: number) => string): void {
    for (const place of this.#root.querySelectorAll(`[${name}]`)) {
      const told = place.getAttribute(name) ?? "";
      const shown = words(Number(told), this.#figures.since(place, told));
      if (place.textContent !== shown) {
        place.textContent = shown;
      }
    }
  }
}

/** Selects the foot of a run that is not over. */
export const stillGoing = '.vibe-foot[data-state="working"], .vibe-foot[data-state="waiting"]';

/** As `left_words` in `vibe_jupyter/ui/status_line.py`; nothing for a wait that is over. */
function leftInWords(left: number): string {
  return left > 0 ? `${Math.ceil(left)} s left` : "";
}

function inWords(seconds: number): string {
  const whole = Math.floor(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
