import { say } from "./announcer";
import { Arming, type Readiness } from "./arming";
import { focusedIn } from "./focus";
import { Leads } from "./leads";
import { Presses } from "./presses";
import { isOnTop, Sights } from "./sight";

const REASONS: Record<Exclude<Readiness, "armed">, string> = {
  hidden: "The buttons are covered or out of view.",
  unread: "Scroll to the end to approve this.",
  settling: "Ready in a moment.",
  doubtful: "Something on this page covers part of this card or changes its look. Look closely; ready in 3 seconds.",
  resting: "Ready once the pointer moves.",
};
export const WAITING = ":is([data-vibe-approval], [data-vibe-question], [data-vibe-review]):not([data-sent])";
const APPROVING = 'button:is([data-vibe-action^="approve"], [data-vibe-action="answer"])';
const GOING_ON = `:is(${APPROVING}, button[data-vibe-action="next"]):not([hidden])`;
const ROUNDING = 2; // px, of scrolling on a magnified page
const TICK = 250; // ms between two looks at a card that waits: not every change of a page fires an event

interface Guarded {
  arming: Arming;
  reason: HTMLElement;
  top: number; // px on the screen, of the buttons
  timer: ReturnType<typeof setTimeout> | undefined;
  wasArmed: boolean;
}

/** Decides which press approves a card, and shows on the card whether one would. */
export class Gate {
  readonly #root: HTMLElement;
  readonly #cards = new Map<HTMLElement, Guarded>();
  readonly #sights: Sights;
  readonly #presses: Presses;
  #ticks: ReturnType<typeof setInterval> | undefined;
  #count = 0;

  /** @param gone aborted when the view is removed. */
  constructor(root: HTMLElement, gone: AbortSignal) {
    this.#root = root;
    this.#sights = new Sights(() => { this.#showAll(); }, gone);
    this.#presses = new Presses((now) => {
      this.#cards.forEach(({ arming }) => { arming.free(now); });
      this.#showAll();
    }, gone);
    new Leads(root, (now) => {
      this.#cards.forEach(({ arming }) => { arming.leadAstray(now); });
      this.#showAll();
    }, gone);
    const options = { capture: true, passive: true, signal: gone };
    window.addEventListener("scroll", () => { this.#showAll(); }, options);
    root.addEventListener("input", () => { this.#showAll(); }, options);
    gone.addEventListener("abort", () => {
      clearInterval(this.#ticks);
      this.#cards.forEach(({ timer }) => { clearTimeout(timer); });
      this.#cards.clear();
    });
  }

  /** Before the kernel changes the view: where are the buttons? */
  note(): void {
    this.#cards.forEach((guarded, card) => {
      guarded.top = topOf(card);
    });
  }

  /** After it did. */
  refresh(): void {
    for (const card of this.#cards.keys()) {
      if (!card.isConnected || card.dataset.sent !== undefined) {
        this.#forget(card);
      }
    }
    for (const card of this.#root.querySelectorAll<HTMLElement>(WAITING)) {
      const guarded = this.#cards.get(card);
      if (guarded === undefined) {
        this.#guard(card);
      } else if (Math.abs(topOf(card) - guarded.top) > 1) {
        this.restart(card);
      }
    }
    this.#showAll();
    clearInterval(this.#ticks);
    if (this.#cards.size > 0) {
      this.#ticks = setInterval(() => { this.#showAll(); }, TICK);
    }
  }

  /** What the card asks is something else now, or somewhere else. */
  restart(card: HTMLElement): void {
    this.#cards.get(card)?.arming.disturb(this.#presses.isOver(card), performance.now());
    this.#showAll();
  }

  /** Whether what this event ends approves the card; if not, a screen reader says why. */
  accepts(card: HTMLElement, event: MouseEvent | KeyboardEvent): boolean {
    this.#showAll();
    const guarded = this.#cards.get(card);
    const press = this.#presses.of(event);
    const isOurs = press.byKey || isOnTop(card, event as MouseEvent);
    if (guarded !== undefined && isOurs && guarded.arming.accepts(press)) {
      return true;
    }
    const reason = guarded?.reason.textContent ?? "";
    say(reason === "" ? "Press again to approve" : reason);
    return false;
  }

  #guard(card: HTMLElement): void {
    const reason = document.createElement("p");
    reason.className = "vibe-readiness";
    reason.id = `vibe-readiness-${++this.#count}`;
    card.append(reason);
    const arming = new Arming(this.#presses.isOver(card));
    this.#cards.set(card, { arming, reason, top: topOf(card), timer: undefined, wasArmed: false });
    this.#sights.watch(card);
  }

  #forget(card: HTMLElement): void {
    const guarded = this.#cards.get(card);
    clearTimeout(guarded?.timer);
    guarded?.reason.remove();
    card.querySelectorAll(APPROVING).forEach((button) => {
      button.removeAttribute("aria-disabled");
      button.removeAttribute("aria-describedby");
    });
    this.#cards.delete(card);
    this.#sights.forget(card);
  }

  #showAll(): void {
    this.#cards.forEach((guarded, card) => {
      this.#show(card, guarded);
    });
  }

  #show(card: HTMLElement, guarded: Guarded): void {
    const { arming, reason } = guarded;
    const now = performance.now();
    const sight = this.#sights.of(card, card.querySelector(GOING_ON) ?? card);
    arming.see(sight, now);
    if (sight !== "unseen" && boxesOf(card).every(isAtEnd)) {
      arming.read(); // the buttons stand right below
    }
    const readiness = arming.readiness(now);
    clearTimeout(guarded.timer);
    if (readiness === "settling" || readiness === "doubtful") {
      guarded.timer = setTimeout(() => { this.#show(card, guarded); }, arming.keysArmedAt - now);
    }
    if (card.dataset.readiness !== readiness) {
      card.dataset.readiness = readiness;
      reason.textContent = readiness === "armed" ? "" : REASONS[readiness];
      mark(card, readiness === "armed" ? null : reason.id);
      if (readiness === "armed" && !guarded.wasArmed) {
        guarded.wasArmed = true;
        if (focusedIn(card) !== null) {
          say("Ready to be approved"); // for who waits for it there; the others meet it so
        }
      }
    }
  }
}

function mark(card: HTMLElement, reason: string | null): void {
  card.querySelectorAll(APPROVING).forEach((button) => {
    if (reason === null) {
      button.removeAttribute("aria-disabled");
      button.removeAttribute("aria-describedby");
    } else {
      button.setAttribute("aria-disabled", "true");
      button.setAttribute("aria-describedby", reason);
    }
  });
}

/** What shows what would run, in a box that may scroll. */
function boxesOf(card: HTMLElement): HTMLElement[] {
  const boxes = card.querySelectorAll<HTMLElement>(":scope > :is(pre, .vibe-words, textarea)");
  return Array.from(boxes).filter((box) => !box.hidden);
}

function isAtEnd({ scrollTop, clientHeight, scrollHeight }: HTMLElement): boolean {
  return scrollTop + clientHeight >= scrollHeight - ROUNDING;
}

function topOf(card: HTMLElement): number {
  return card.querySelector("footer")?.getBoundingClientRect().top ?? 0;
}
