import type { Press } from "./arming";

const pressKeys = new Set(["Enter", " "]);

/**
 * When what is held now went down, and when the pointer is free of what it did before. Hears the whole page, and nothing
 * that a script made.
 */
export class Presses {
  #pointerBegan: number | null = null;
  #keyBegan: number | null = null;
  #place = ""; // of the pointer on the screen: a page that moves under it makes no move of the pointer
  #last: PointerEvent | "lifted" | null = null;

  /** @param gone aborted when the view is removed. */
  constructor(onFree: (now: number) => void, gone: AbortSignal) {
    const hear = <K extends "pointermove" | "pointerup" | "pointerdown" | "keydown" | "keyup">(
      type: K, told: (event: WindowEventMap[K]) => void,
    ): void => {
      window.addEventListener(type, (event) => {
        if (event.isTrusted) {
          told(event);
        }
      }, { capture: true, passive: true, signal: gone });
    };
    hear("pointermove", (event) => {
      if (this.#moves(event)) {
        onFree(event.timeStamp);
      }
    });
    hear("pointerup", ({ timeStamp, pointerType }) => {
      if (pointerType === "touch") {
        this.#last = "lifted";
      }
      onFree(timeStamp);
    });
    hear("pointerdown", (event) => {
      this.#moves(event);
      this.#pointerBegan = event.timeStamp;
    });
    hear("keydown", ({ key, repeat, timeStamp }) => {
      if (pressKeys.has(key)) {
        this.#keyBegan = repeat ? this.#keyBegan ?? -Infinity : timeStamp; // a repeat alone began who knows when
      }
    });
    hear("keyup", ({ key }) => {
      if (pressKeys.has(key)) {
        setTimeout(() => { this.#keyBegan = null; }); // the click of a key comes after it
      }
    });
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
