import type { Press } from "./arming";

const pressKeys = new Set(["Enter", " "]);

/** When what is held now went down, and when the pointer is free of what it did before. Hears the whole page. */
export class Presses {
  #pointerBegan: number | null = null;
  #keyBegan: number | null = null;
  #place = ""; // of the pointer on the screen: a page that moves under it makes no move of the pointer
  #last: PointerEvent | "lifted" | null = null;

  /** @param gone aborted when the view is removed. */
  constructor(onFree: (now: number) => void, gone: AbortSignal) {
    const options = { capture: true, passive: true, signal: gone };
    window.addEventListener("pointermove", (event) => {
      if (this.#moves(event)) {
        onFree(event.timeStamp);
      }
    }, options);
    window.addEventListener("pointerup", ({ timeStamp, pointerType }) => {
      if (pointerType === "touch") {
        this.#last = "lifted";
      }
      onFree(timeStamp);
    }, options);
    window.addEventListener("pointerdown", (event) => {
      this.#moves(event);
      this.#pointerBegan = event.timeStamp;
    }, options);
    window.addEventListener("keydown", ({ key, repeat, timeStamp }) => {
      if (pressKeys.has(key) && !repeat) {
        this.#keyBegan = timeStamp;
      }
    }, options);
    window.addEventListener("keyup", ({ key }) => {
      if (pressKeys.has(key)) {
        setTimeout(() => { this.#keyBegan = null; }); // the click of a key comes after it
      }
    }, options);
  }

  /** The press that this event ends. A click without one comes from assistive technology, all at once. */
  of(event: MouseEvent | KeyboardEvent): Press {
    if (event instanceof KeyboardEvent) {
      return { began: event.timeStamp, byKey: true };
    }
    const byKey = event.detail === 0;
    return { began: (byKey ? this.#keyBegan : this.#pointerBegan) ?? event.timeStamp, byKey };
  }

  /** Whether the pointer is over an element, also when that has only just come under it. */
  isOver(element: Element): boolean {
    if (this.#last === "lifted") {
      return false; // no finger, no pointer
    }
    if (this.#last === null) {
      return element.matches(":hover");
    }
    const { clientX, clientY } = this.#last;
    const { left, right, top, bottom } = element.getBoundingClientRect();
    return clientX >= left && clientX <= right && clientY >= top && clientY <= bottom;
  }

  #moves(event: PointerEvent): boolean {
    const before = this.#place;
    this.#last = event;
    this.#place = `${event.screenX},${event.screenY}`;
    return before !== "" && before !== this.#place;
  }
}
