const SETTLE = 1000; // ms in which the kept form is drawn, formulas and all
const takesOver = ["wheel", "pointerdown", "keydown"] as const; // the user moves the page

/**
 * Keeps on the screen what the user watches: the end of the run while it grows, and its place when the kept form, which
 * is shorter, takes over. Who has scrolled away, or types further up, is left alone.
 */
export class Place {
  readonly #host: HTMLElement;
  readonly #root: HTMLElement;
  #watched = false;
  #bottoms = new Map<Element, number>(); // px on the screen, of everything around the view when the run ended

  /** @param host what stands in the page for the view. */
  constructor(host: HTMLElement, root: HTMLElement) {
    this.#host = host;
    this.#root = root;
  }

  /** Before the view changes: is its end in sight? */
  note(): void {
    const end = this.#end;
    const shown = frame(this.#host);
    this.#watched = end > shown.top && end <= shown.bottom + 1 && !typesAbove(this.#host);
  }

  /** After it changed: bring the end back into sight, a waiting card whole or from its beginning. */
  follow(): void {
    const shown = frame(this.#host);
    const below = this.#end - shown.bottom;
    if (!this.#watched || below <= 0) {
      return;
    }
    const card = this.#root.querySelector(".vibe-card:not([data-sent])");
    const room = card === null ? below : Math.max(0, card.getBoundingClientRect().top - shown.top);
    scrollerOf(this.#host).scrollTop += Math.min(below, room);
  }

  /** The run is over; the view will be gone in a moment. */
  hold(): void {
    this.note();
    if (this.#watched) {
      for (let one = this.#host.parentElement; one !== null; one = one.parentElement) {
        this.#bottoms.set(one, one.getBoundingClientRect().bottom);
      }
    }
  }

  /** The view is gone: what stands in its place ends where it ended. */
  release(): void {
    const around = Array.from(this.#bottoms.keys());
    if (around.length === 0) {
      return;
    }
    const end = new AbortController();
    const home = (): Element | undefined => around.find((one) => one.isConnected);
    let left: DOMRect | undefined; // where it was when we scrolled last
    const observer = new ResizeObserver(() => {
      const one = home();
      if (one !== undefined) {
        scrollerOf(one).scrollTop += one.getBoundingClientRect().bottom - (this.#bottoms.get(one) ?? 0);
        left = one.getBoundingClientRect();
      }
    });
    around.slice(0, around.indexOf(scrollerOf(home() ?? document.body))).forEach((one) => {
      observer.observe(one);
    });
    end.signal.addEventListener("abort", () => {
      observer.disconnect();
    });
    takesOver.forEach((kind) => {
      document.addEventListener(kind, () => { end.abort(); }, { capture: true, passive: true, signal: end.signal });
    });
    document.addEventListener("scroll", () => {
      const now = home()?.getBoundingClientRect();
      // What moved without growing was scrolled, and not by us.
      if (now?.height === left?.height && Math.abs((now?.bottom ?? 0) - (left?.bottom ?? 0)) > 1) {
        end.abort();
      }
    }, { capture: true, passive: true, signal: end.signal });
    setTimeout(() => { end.abort(); }, SETTLE);
  }

  get #end(): number {
    return this.#root.getBoundingClientRect().bottom;
  }
}

/** The nearest element around that scrolls. */
function scrollerOf(element: Element): Element {
  for (let one = element.parentElement; one !== null; one = one.parentElement) {
    const scrolls = /auto|scroll/.test(getComputedStyle(one).overflowY);
    if (scrolls && one.scrollHeight > one.clientHeight) {
      return one;
    }
  }
  return document.scrollingElement ?? document.documentElement;
}

/** What of the page is in sight, in px on the screen. */
function frame(element: Element): { top: number; bottom: number } {
  const scroller = scrollerOf(element);
  if (scroller === document.scrollingElement) {
    return { top: 0, bottom: window.innerHeight };
  }
  const { top, bottom } = scroller.getBoundingClientRect();
  return { top: Math.max(top, 0), bottom: Math.min(bottom, window.innerHeight) };
}

/** Whether the user is writing somewhere above the view: moving that away would take the words from under the hands. */
function typesAbove(root: Element): boolean {
  const active = document.activeElement;
  const writes = active instanceof HTMLElement && (active.isContentEditable || active.matches("input, textarea"));
  return writes && (root.compareDocumentPosition(active) & Node.DOCUMENT_POSITION_PRECEDING) !== 0;
}
