import type { Sight } from "./arming";

const OPACITY = { seen: 0.5, plain: 0.9 }; // of a button and everything around it: less is not seen, or not plainly
const SMALLEST = 10; // px of a button's sides on the screen, to count as seen
const WHOLE = 0.99; // of an element that the page cuts nothing off
const DELAY = 100; // ms between two reports; the least that browsers allow where they look for what covers an element

/** The second version of IntersectionObserver, which also says whether anything covers or blurs the target. */
interface Options extends IntersectionObserverInit {
  trackVisibility: boolean;
  delay: number;
}
interface Entry extends IntersectionObserverEntry {
  isVisible?: boolean;
}

/**
 * How well a user can see the buttons of a card, and what they decide on.
 *
 * Only what is under the middle of the button decides whether it is seen at all: every browser tells, at every moment.
 * The observer says more, where there is one, but also no without a reason (a filter over the whole page, an extension
 * that dims it, no report at all), so its no is a doubt and not a verdict.
 */
export class Sights {
  readonly #observer: IntersectionObserver;
  readonly #entries = new Map<Element, Entry>();

  /** @param gone aborted when the view is removed. */
  constructor(onChange: () => void, gone: AbortSignal) {
    const options: Options = { threshold: [0, WHOLE, 1], trackVisibility: true, delay: DELAY };
    this.#observer = new IntersectionObserver((entries) => {
      entries.forEach((entry) => this.#entries.set(entry.target, entry));
      onChange();
    }, options);
    gone.addEventListener("abort", () => { this.#observer.disconnect(); });
  }

  watch(card: Element): void {
    partsOf(card).forEach((part) => {
      this.#observer.observe(part);
    });
  }

  forget(card: Element): void {
    partsOf(card).forEach((part) => {
      this.#observer.unobserve(part);
      this.#entries.delete(part);
    });
  }

  /** @param button the one that would approve. */
  of(card: Element, button: Element): Sight {
    const { width, height } = button.getBoundingClientRect();
    const opacity = opacityOf(card);
    const isThere = document.visibilityState === "visible" && Math.min(width, height) >= SMALLEST && isOnTop(button);
    if (!isThere || opacity < OPACITY.seen) {
      return "unseen";
    }
    const isClear = opacity >= OPACITY.plain && isPlain(card) && !partsOf(card).some((part) => this.#isCovered(part));
    return isClear ? "clear" : "doubtful";
  }

  /** Only of what is whole: what lies beyond the edge of a scrolled place is under the bars around it. */
  #isCovered(part: Element): boolean {
    const entry = this.#entries.get(part);
    return entry !== undefined && entry.intersectionRatio >= WHOLE && (entry.isVisible === false || !isOnTop(part));
  }
}

/** Whether a point, or the middle of an element, shows it or something in it, seen from the page down to it. */
export function isOnTop(element: Element, point = middleOf(element)): boolean {
  for (let one = element; ;) {
    const scope = one.getRootNode();
    if (!(scope instanceof Document || scope instanceof ShadowRoot)) {
      return false;
    }
    const top = scope.elementFromPoint(point.x, point.y);
    if (!one.contains(top)) {
      return false;
    }
    if (scope instanceof Document) {
      return true;
    }
    one = scope.host;
  }
}

function middleOf(element: Element): { x: number; y: number } {
  const { left, top, width, height } = element.getBoundingClientRect();
  return { x: left + width / 2, y: top + height / 2 };
}

function partsOf(card: Element): Element[] {
  return Array.from(card.querySelectorAll(":scope > :is(header, pre, footer)"));
}

/** It and everything around it, through shadow roots. */
function* around(element: Element): Generator<CSSStyleDeclaration> {
  for (let one: Element | null = element; one !== null;) {
    yield getComputedStyle(one);
    const scope: Node = one.getRootNode();
    one = one.parentElement ?? (scope instanceof ShadowRoot ? scope.host : null);
  }
}

function opacityOf(element: Element): number {
  let opacity = 1;
  for (const style of around(element)) {
    opacity *= Number(style.opacity);
  }
  return opacity;
}

/** Whether nothing around it blurs, cuts, shrinks or turns it; also where browsers do not say so. */
function isPlain(element: Element): boolean {
  for (const style of around(element)) {
    const isChanged = style.filter !== "none" || style.clipPath !== "none" || style.mixBlendMode !== "normal";
    if (isChanged || !isUpright(style)) {
      return false;
    }
  }
  return true;
}

function isUpright({ transform, rotate, scale }: CSSStyleDeclaration): boolean {
  const { a, b, c, d, is2D } = new DOMMatrix(transform === "none" ? "" : transform);
  return is2D && b === 0 && c === 0 && a >= 1 && d >= 1 && rotate === "none" && scale === "none";
}
