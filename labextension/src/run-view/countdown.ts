interface Told {
  seconds: string; // the kernel's figure
  at: number; // ms
}

/** Counts down the waits in the view, from the figure the kernel said. Not announced: only the notice itself is. */
export class Countdown {
  readonly #root: HTMLElement;
  readonly #told = new WeakMap<Element, Told>();

  constructor(root: HTMLElement) {
    this.#root = root;
  }

  /** Bring the shown seconds up to date, also right after the kernel said a new figure. */
  refresh(): void {
    for (const place of this.#root.querySelectorAll<HTMLElement>("[data-vibe-countdown]")) {
      place.textContent = inWords(this.#left(place));
    }
  }

  #left(place: HTMLElement): number {
    const seconds = place.dataset.vibeCountdown ?? "";
    let told = this.#told.get(place);
    if (told?.seconds !== seconds) {
      told = { seconds, at: performance.now() };
      this.#told.set(place, told);
    }
    return Number(seconds) - (performance.now() - told.at) / 1000;
  }
}

/** As `left_words` in `vibe_jupyter/ui/status_line.py`; nothing for a wait that is over. */
function inWords(left: number): string {
  return left > 0 ? `${Math.ceil(left)} s left` : "";
}
