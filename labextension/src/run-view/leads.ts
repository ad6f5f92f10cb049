import { SETTLE } from "./arming";
import { takeGiven } from "./focus";

/** Milliseconds after the page has heard a press in which it moves the focus; what moves it later is something else. */
const LEADS_FOR = 100;
const CARD = "[data-vibe-approval], [data-vibe-question], [data-vibe-review]";
const FOCUSABLE = "[tabindex], button, input, textarea, summary, a[href]";
const RADIO = 'input[type="radio"]';

/** Whether a press explains that the focus goes there; on the body, that it goes nowhere. */
type Reach = (target: Element) => boolean;

interface Lead {
  explains: Reach;
  /** Whether it is used up by the first move, and not only by one into a card: the page does more for clicks and F8. */
  isOneMove: boolean;
  until: number;
}

/**
 * Notices each focus in the view that no press of the user explains: Tab, F8, an arrow among choices, a pointer on what
 * takes the focus, or a press that the view itself answers (`giveFocus`).
 *
 * A stray move elsewhere counts too: where the focus was put half a moment ago, the next Tab or F8 goes on from there.
 */
export class Leads {
  readonly #root: HTMLElement;
  readonly #onStray: (now: number) => void;
  #lead: Lead | null = null;
  #seat = deepFocus(); // as far as events told; null for the body
  #strayed = -Infinity;
  #seen: Event | null = null;

  /**
   * @param onStray told when the focus came into the view unexplained.
   * @param gone aborted when the view is removed.
   */
  constructor(root: HTMLElement, onStray: (now: number) => void, gone: AbortSignal) {
    this.#root = root;
    this.#onStray = onStray;
    const options = { capture: true, passive: true, signal: gone };
    window.addEventListener("keydown", (event) => { this.#press(event, (from) => reachOfKey(event, from)); }, options);
    window.addEventListener("mousedown", (event) => { this.#press(event, reachOfPointer); }, options);
    window.addEventListener("click", (event) => { this.#press(event, reachOfPointer); }, options);
    window.addEventListener("focusin", (event) => { this.#move(event); }, options);
    root.addEventListener("focusin", (event) => { this.#move(event); }, options); // moves inside stay inside
    window.addEventListener("focusout", ({ relatedTarget }) => {
      if (relatedTarget === null) {
        this.#sit(null, this.#explains(document.body), false);
      }
    }, options);
  }

  #press(event: KeyboardEvent | MouseEvent, reachFrom: (target: Element) => Reach | null): void {
    const target = targetOf(event);
    if (!event.isTrusted || target === null) {
      return;
    }
    if (event instanceof KeyboardEvent && seatOf(target) !== this.#seat) {
      this.#sit(target, false, this.#isHere(event)); // keys go where the focus is: it came here, and no event said so
    }
    const explains = reachFrom(target);
    const goesOn = event instanceof KeyboardEvent && performance.now() < this.#strayed + SETTLE;
    if (explains === null || goesOn) {
      this.#lead = null;
      return;
    }
    const isOneMove = event instanceof KeyboardEvent && event.key === "Tab";
    const lead: Lead = { explains, isOneMove, until: Infinity };
    this.#lead = lead;
    setTimeout(() => { lead.until = performance.now() + LEADS_FOR; }); // the page's own listeners may take their time
  }

  #explains(target: Element): boolean {
    return this.#lead !== null && performance.now() < this.#lead.until && this.#lead.explains(target);
  }

  #move(event: FocusEvent): void {
    const target = targetOf(event);
    if (event === this.#seen || target === null) {
      return;
    }
    this.#seen = event;
    const isExplained = takeGiven(target) || this.#explains(target);
    if (this.#lead?.isOneMove === true || isInCard(target)) {
      this.#lead = null;
    }
    this.#sit(target, isExplained, this.#isHere(event));
  }

  /** Also in a tree that a script hangs into the view. */
  #isHere(event: Event): boolean {
    return event.composedPath().includes(this.#root);
  }

  #sit(target: Element | null, isExplained: boolean, isHere: boolean): void {
    this.#seat = target === null ? null : seatOf(target);
    if (!isExplained) {
      this.#lead = null;
      this.#strayed = performance.now();
      if (isHere) {
        this.#onStray(this.#strayed);
      }
    }
  }
}

function reachOfKey(event: KeyboardEvent, from: Element): Reach | null {
  const card = from.closest<HTMLElement>(CARD);
  if (event.key === "Tab") {
    // The browser moves the focus when all listeners are done; a script moves it in one of them, or takes the key.
    return () => event.eventPhase === Event.NONE && !event.defaultPrevented;
  }
  if (event.key === "F8") {
    return () => true;
  }
  if (event.key.startsWith("Arrow") && from.matches(RADIO)) {
    return (target) => target.matches(RADIO) && target.closest("fieldset") === from.closest("fieldset");
  }
  return card === null ? null : (target) => isSent(card) && isInCard(target);
}

/** A pointer gives the focus to what it presses, or to what the label there belongs to. */
function reachOfPointer(from: Element): Reach {
  const card = from.closest<HTMLElement>(CARD);
  const pressed = [from.closest(FOCUSABLE), from.closest("label")?.control];
  const isInPage = (target: Element): boolean => target.getRootNode() === document; // a view has a tree of its own
  return (target) => isInPage(target) || pressed.includes(target) || (card !== null && isSent(card) && isInCard(target));
}

function isInCard(target: Element): boolean {
  return target.closest(CARD) !== null;
}

/** A decision leads to the next card, by the extension also into another view. */
function isSent(card: HTMLElement): boolean {
  return card.dataset.sent !== undefined;
}

function targetOf(event: Event): Element | null {
  const [target] = event.composedPath();
  return target instanceof Element ? target : null;
}

function seatOf(target: Element): Element | null {
  return target === document.body || target === document.documentElement ? null : target;
}

function deepFocus(): Element | null {
  let focused = document.activeElement;
  while (focused?.shadowRoot?.activeElement != null) {
    focused = focused.shadowRoot.activeElement;
  }
  return focused === null ? null : seatOf(focused);
}
