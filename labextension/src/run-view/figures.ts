interface Told {
  figure: string;
  at: number; // ms
}

/** When the kernel said a figure that the page counts on from. */
export class Figures {
  readonly #told = new WeakMap<Element, Told>();

  /** Seconds since it was first seen at this place. */
  since(place: Element, figure: string): number {
    let told = this.#told.get(place);
    if (told?.figure !== figure) {
      told = { figure, at: performance.now() };
      this.#told.set(place, told);
    }
    return (performance.now() - told.at) / 1000;
  }
}
