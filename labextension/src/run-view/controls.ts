import { Card } from "./card";
import { say } from "./announcer";
import { stillGoing } from "./clock";
import { ask, focusFoot, focusedIn, giveFocus, tellCards } from "./focus";
import { FootFocus } from "./foot-focus";
import { WAITING, type Gate } from "./gate";
import type { Command } from "../contract";

const PATIENCE = 1500; // ms from Stop until the kernel itself is interrupted, or the words name the front end's own button

const ENTER_DOES_NOTHING = "To run it, press Space on the red button.";

/** Where the front end's own keys would get in the way. */
const takesKeys = 'button, summary, input, textarea, .vibe-card, [data-vibe-scrolls], .vibe-cell, [data-part="foot"]';

/** Turns clicks and keys into commands. Keys act only while the focus is inside a card. */
export class Controls {
  readonly #root: HTMLElement;
  readonly #gate: Gate;
  readonly #send: (command: Command) => void;
  readonly #foot: FootFocus;
  readonly #decided = new Set<string>();
  #stopping = false;
  #patience: ReturnType<typeof setTimeout> | undefined;

  /**
   * @param host what stands in the page for the view.
   * @param gone aborted when the view is removed.
   */
  constructor(host: HTMLElement, root: HTMLElement, gate: Gate, send: (command: Command) => void, gone: AbortSignal) {
    this.#foot = new FootFocus(host, root);
    this.#root = root;
    this.#gate = gate;
    this.#send = send;
    const options = { signal: gone };
    root.addEventListener("click", (event) => {
      this.#click(event);
    }, options);
    root.addEventListener("keydown", (event) => {
      this.#key(event);
    }, options);
    root.addEventListener("input", ({ target }) => {
      if (target instanceof Element) {
        Card.around(target)?.showEdited();
      }
    }, options);
    root.addEventListener("focusin", ({ target }) => {
      const wanted = target instanceof Element && target.closest(takesKeys) !== null;
      host.toggleAttribute("data-lm-suppress-shortcuts", wanted); // the page sees the host alone
    }, options);
    root.addEventListener("focusout", () => { host.removeAttribute("data-lm-suppress-shortcuts"); }, options);
    gone.addEventListener("abort", () => {
      clearTimeout(this.#patience);
      host.removeAttribute("data-lm-suppress-shortcuts");
    });
  }

  /** Show again what was decided, after the kernel sent parts again. */
  refresh(): void {
    for (const element of this.#root.querySelectorAll<HTMLElement>("[data-vibe-approval]:not([data-sent])")) {
      const card = new Card(element);
      if (this.#decided.has(card.id)) {
        card.showSent();
      }
    }
    if (this.#stopping) {
      this.#showStopping();
    }
    this.#foot.refresh();
  }

  /** The run is over, and the view goes. */
  end(): void {
    this.#foot.end();
  }

  #click(event: MouseEvent): void {
    const button = event.target instanceof Element ? event.target.closest("button[data-vibe-action]") : null;
    if (button === null || !event.isTrusted) {
      return;
    }
    const action = button.getAttribute("data-vibe-action");
    const card = Card.around(button);
    if (action === "stop") {
      this.#stop();
    } else if (card !== null && action !== null) {
      this.#act(card, action, event);
    }
  }

  #key(event: KeyboardEvent): void {
    const { target } = event;
    if (event.key === "F8" && target instanceof Element && event.isTrusted) {
      event.preventDefault();
      event.stopPropagation();
      this.#go(target, event.shiftKey ? -1 : 1);
      return;
    }
    if (this.#foot.takes(event)) {
      return;
    }
    const card = target instanceof Element ? Card.around(target) : null;
    if (card === null || !(target instanceof Element) || !event.isTrusted) {
      return; // a script in some output is no person
    }
    const action = plain(event) ? actionOf(event.key, target) : null;
    if (card.isHighRisk && event.key === "Enter" && (action === "approve" || target.matches('[data-vibe-action="approve"]'))) {
      event.preventDefault(); // not by Enter, neither on the card nor on the red button
      say(ENTER_DOES_NOTHING);
    } else if (action !== null) {
      event.preventDefault();
      this.#act(card, action, event);
    }
    if (action !== null || isTextField(target)) {
      event.stopPropagation();
    }
  }

  #act(card: Card, action: string, event: MouseEvent | KeyboardEvent): void {
    if (this.#decided.has(card.id) || (action.startsWith("approve") && !this.#gate.accepts(card.element, event))) {
      return;
    }
    switch (action) {
      case "approve":
        this.#decide(card, card.approval("once"), event instanceof KeyboardEvent);
        break;
      case "approve-session":
        this.#decide(card, card.approval("session"), event instanceof KeyboardEvent);
        break;
      case "approve-project":
        this.#decide(card, card.approval("project"), event instanceof KeyboardEvent);
        break;
      case "deny-now":
        this.#decide(card, card.rejection(), event instanceof KeyboardEvent);
        break;
      case "edit":
        card.toggleEditor();
        break;
      case "open-editor":
        card.openEditor();
        break;
      case "deny":
        card.openDenial();
        break;
      case "close-menu":
        card.closeMenu();
        break;
      case "keep-card":
        card.closeDenial();
        break;
      case "leave-editor":
        giveFocus(card.element, { preventScroll: true });
        break;
    }
  }

  #decide(card: Card, command: Command, byKey: boolean): void {
    const hadFocus = focusedIn(card.element) !== null;
    this.#decided.add(card.id);
    card.showSent();
    if (hadFocus) {
      const next = this.#root.querySelector<HTMLElement>(WAITING);
      if (next !== null) {
        new Card(next).focus();
      } else if (!ask(this.#root, "vibe-card-decided", byKey)) {
        this.#foot.take(byKey);
      }
    }
    this.#send(command);
    tellCards();
  }

  /** To the next card of the notebook, or the one before; without the extension, of this view. */
  #go(from: Element, step: 1 | -1): void {
    if (ask(this.#root, "vibe-go-to-card", step)) {
      return;
    }
    const cards = Array.from(this.#root.querySelectorAll<HTMLElement>(WAITING));
    const at = cards.findIndex((card) => card.contains(from));
    const next = at < 0 ? cards.at(step === 1 ? 0 : -1) : cards[(at + step + cards.length) % cards.length];
    if (next !== undefined) {
      new Card(next).focus();
    }
  }

  #stop(): void {
    this.#stopping = true;
    this.#showStopping();
    this.#send({ type: "interrupt" });
    clearTimeout(this.#patience);
    this.#patience = setTimeout(() => {
      // The extension, where it is there, takes the event and interrupts the kernel.
      if (!ask(this.#root, "vibe-stop")) {
        this.#nameOtherButton();
      }
    }, PATIENCE);
  }

  #showStopping(): void {
    const button = this.#root.querySelector<HTMLButtonElement>('button[data-vibe-action="stop"]');
    if (button !== null && !button.disabled) {
      if (button === focusedIn(button)) {
        focusFoot(this.#root);
      }
      button.disabled = true;
      button.textContent = "Stopping…";
    }
  }

  /** The kernel cannot hear us while it runs the user's own code. */
  #nameOtherButton(): void {
    const foot = this.#root.querySelector(stillGoing);
    if (foot === null) {
      return;
    }
    const running = this.#root.querySelector('.vibe-step[data-outcome="running"]') !== null;
    const words = document.createElement("p");
    words.className = "vibe-hint";
    words.setAttribute("role", "status");
    words.textContent = running
      ? "Code is running: press ■ in the toolbar to interrupt it"
      : "Still stopping; ■ in the toolbar ends it at once";
    foot.after(words);
  }
}

function plain(event: KeyboardEvent): boolean {
  return !(event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || event.repeat || event.isComposing);
}

/** What a key means where the focus is; null where it keeps its own meaning. */
function actionOf(key: string, target: Element): string | null {
  if (target.matches(".vibe-editor")) {
    return key === "Escape" ? "leave-editor" : null;
  }
  if (target.matches(".vibe-deny-message")) {
    return key === "Enter" ? "deny-now" : key === "Escape" ? "keep-card" : null;
  }
  if (key === "Escape" && target.closest(".vibe-menu[open]") !== null) {
    return "close-menu";
  }
  if (key === "Enter") {
    return target.matches("button:not(.vibe-primary), summary, input, textarea") ? null : "approve";
  }
  return key === "Escape" ? "deny" : key === "e" || key === "E" ? "open-editor" : null;
}

function isTextField(target: Element): boolean {
  return target.matches("input, textarea");
}
