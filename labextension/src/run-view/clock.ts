import { Countdown } from "./countdown";

const TICK = 1000; // ms

/** Counts the seconds in the foot, and those of a wait, between two words of the kernel. */
export class Clock {
  readonly #root: HTMLElement;
  readonly #countdown: Countdown;
  #told = ""; // the kernel's last figure
  #toldAt = 0; // ms

  /** @param gone aborted when the view is removed. */
  constructor(root: HTMLElement, gone: AbortSignal) {
    this.#root = root;
    this.#countdown = new Countdown(root);
    const timer = setInterval(() => {
      this.refresh();
    }, TICK);
    gone.addEventListener("abort", () => { clearInterval(timer); });
  }

  /** Bring the shown seconds up to date, also right after the kernel said a new figure. */
  refresh(): void {
    this.#countdown.refresh();
    const clock = this.#root.querySelector<HTMLElement>(".vibe-clock[data-vibe-clock]");
    if (clock === null || this.#root.querySelector(stillGoing) === null) {
      return;
    }
    const told = clock.dataset.vibeClock ?? "";
    if (told !== this.#told) {
      this.#told = told;
      this.#toldAt = performance.now();
    }
    clock.textContent = inWords(Number(told) + (performance.now() - this.#toldAt) / 1000);
  }
}

/** Selects the foot of a run that is not over. */
export const stillGoing = '.vibe-foot[data-state="working"], .vibe-foot[data-state="waiting"]';

function inWords(seconds: number): string {
  const whole = Math.floor(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
