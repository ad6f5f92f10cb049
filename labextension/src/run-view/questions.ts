import { focusFoot, focusedIn, giveFocus } from "./focus";
import type { Gate } from "./gate";
import type { Answered, Command } from "../contract";

/** The cards of questions: tabs, choices, free text, and one answer to the kernel. */
export class Questions {
  readonly #root: HTMLElement;
  readonly #gate: Gate;
  readonly #send: (command: Command) => void;
  readonly #sent = new Set<string>();

  /** @param gone aborted when the view is removed. */
  constructor(root: HTMLElement, gate: Gate, send: (command: Command) => void, gone: AbortSignal) {
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
      const card = target instanceof Element ? cardAround(target) : null;
      if (card !== null && target instanceof HTMLInputElement) {
        wordsOrChoice(target);
        showReady(card);
      }
    }, options);
  }

  /** Show again what was sent, after the kernel sent parts again. */
  refresh(): void {
    for (const card of this.#root.querySelectorAll<HTMLElement>("[data-vibe-question]:not([data-sent])")) {
      if (this.#sent.has(idOf(card))) {
        showSent(card);
      } else {
        showReady(card);
      }
    }
  }

  #click(event: MouseEvent): void {
    const button = event.target instanceof Element ? event.target.closest("button[data-vibe-action]") : null;
    const card = button === null ? null : cardAround(button);
    if (button === null || card === null || !event.isTrusted) {
      return;
    }
    switch (button.getAttribute("data-vibe-action")) {
      case "tab":
        this.#turn(card, Number(button.getAttribute("data-vibe-place")));
        break;
      case "next":
        this.#turn(card, shownPlace(card) + 1, true);
        break;
      case "answer":
        this.#answer(card, event);
        break;
      case "skip":
        this.#decide(card, null);
        break;
    }
  }

  #key(event: KeyboardEvent): void {
    const { target } = event;
    const card = target instanceof HTMLElement ? cardAround(target) : null;
    if (card === null || !(target instanceof HTMLElement) || !event.isTrusted) {
      return;
    }
    const plain = !(event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || event.repeat || event.isComposing);
    const action = plain ? questionAction(event.key, target) : null;
    if (action !== null) {
      event.preventDefault();
      this.#press(card, action, event);
    } else if (plain && target.matches("[role=tab]") && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      event.preventDefault();
      this.#turn(card, shownPlace(card) + (event.key === "ArrowRight" ? 1 : -1));
      giveFocus(card.querySelector<HTMLElement>('[role="tab"][aria-selected="true"]'));
    }
    event.stopPropagation(); // nothing that is typed here is a shortcut of the page
  }

  #press(card: HTMLElement, action: QuestionAction, event: KeyboardEvent): void {
    if (action === "forward") {
      this.#forward(card, event);
    } else if (action === "skip") {
      this.#decide(card, null);
    } else if (action === "leave") {
      giveFocus(card, { preventScroll: true });
    } else {
      choose(card, action);
    }
  }

  /** To the next question; from the last one, send. */
  #forward(card: HTMLElement, event: KeyboardEvent): void {
    const panels = panelsOf(card);
    if (shownPlace(card) < panels.length - 1) {
      this.#turn(card, shownPlace(card) + 1, true);
    } else if (isAnswered(card)) {
      this.#answer(card, event);
    }
  }

  /** Another question is behind the same button now. */
  #turn(card: HTMLElement, place: number, withFocus = false): void {
    turnTo(card, place, withFocus);
    this.#gate.restart(card);
  }

  #answer(card: HTMLElement, event: MouseEvent | KeyboardEvent): void {
    if (this.#gate.accepts(card, event)) {
      this.#decide(card, answersOf(card));
    }
  }

  #decide(card: HTMLElement, answers: Answered[] | null): void {
    const id = idOf(card);
    if (this.#sent.has(id)) {
      return;
    }
    this.#sent.add(id);
    const hadFocus = focusedIn(card) !== null;
    showSent(card);
    if (hadFocus) {
      focusFoot(this.#root);
    }
    this.#send({ type: "answer", question_id: id, answers });
  }
}

/** A number stands for the choice at that place, from 1. */
export type QuestionAction = "forward" | "skip" | "leave" | number;

/** What a key means on the card; null where it keeps its own meaning. */
export function questionAction(key: string, target: Pick<Element, "matches">): QuestionAction | null {
  const writes = target.matches(".vibe-own-words");
  if (key === "Enter") {
    return target.matches("button") ? null : "forward";
  }
  if (key === "Escape") {
    return writes ? "leave" : "skip";
  }
  return !writes && /^[1-9]$/.test(key) ? Number(key) : null;
}

/** Choose what stands at a place of the shown question: an option, or behind them the line for own words. */
function choose(card: HTMLElement, place: number): void {
  const choices = panelsOf(card)[shownPlace(card)]?.querySelectorAll<HTMLInputElement>(".vibe-choice, .vibe-own-words");
  const choice = choices?.[place - 1];
  giveFocus(choice, { preventScroll: true });
  if (choice?.matches(".vibe-choice")) {
    choice.click();
  }
}

function cardAround(node: Element): HTMLElement | null {
  return node.closest<HTMLElement>("[data-vibe-question]");
}

function idOf(card: HTMLElement): string {
  return card.dataset.vibeQuestion ?? "";
}

function panelsOf(card: HTMLElement): HTMLElement[] {
  return Array.from(card.querySelectorAll<HTMLElement>(".vibe-question"));
}

function shownPlace(card: HTMLElement): number {
  return panelsOf(card).findIndex((panel) => !panel.hidden);
}

function turnTo(card: HTMLElement, place: number, withFocus = false): void {
  const panels = panelsOf(card);
  const wanted = Math.min(Math.max(place, 0), panels.length - 1);
  panels.forEach((panel, index) => {
    panel.hidden = index !== wanted;
  });
  card.querySelectorAll<HTMLElement>("[role=tab]").forEach((tab, index) => {
    tab.setAttribute("aria-selected", String(index === wanted));
    tab.tabIndex = index === wanted ? 0 : -1;
  });
  const isLast = wanted === panels.length - 1;
  card.querySelector('[data-vibe-action="next"]')?.toggleAttribute("hidden", isLast);
  card.querySelector('[data-vibe-action="answer"]')?.toggleAttribute("hidden", !isLast);
  if (withFocus) {
    giveFocus(panels[wanted]?.querySelector<HTMLElement>("input"), { preventScroll: true });
  }
}

/** One answer where one is wanted: own words take a single choice away, and the other way round. */
function wordsOrChoice(changed: HTMLInputElement): void {
  const panel = changed.closest("fieldset");
  if (panel?.querySelector('input[type="checkbox"]') !== null) {
    return;
  }
  const words = panel.querySelector<HTMLInputElement>("input.vibe-own-words");
  if (changed.type === "radio" && words !== null) {
    words.value = "";
  } else if (changed === words && words.value !== "") {
    for (const choice of panel.querySelectorAll<HTMLInputElement>("input.vibe-choice")) {
      choice.checked = false;
    }
  }
}

function answersOf(card: HTMLElement): Answered[] {
  return panelsOf(card).map((panel) => ({
    question: panel.dataset.vibeText ?? "",
    selected: Array.from(panel.querySelectorAll<HTMLInputElement>("input.vibe-choice:checked"), ({ value }) => value),
    other: panel.querySelector<HTMLInputElement>("input.vibe-own-words")?.value.trim() ?? "",
  }));
}

function isAnswered(card: HTMLElement): boolean {
  return answersOf(card).some(({ selected, other }) => selected.length > 0 || other !== "");
}

/** There is something to send as soon as one of the questions has an answer. */
function showReady(card: HTMLElement): void {
  const button = card.querySelector<HTMLButtonElement>('button[data-vibe-action="answer"]');
  if (button !== null) {
    button.disabled = !isAnswered(card);
  }
}

function showSent(card: HTMLElement): void {
  for (const control of card.querySelectorAll<HTMLButtonElement | HTMLInputElement>("button, input")) {
    control.disabled = true;
  }
  card.dataset.sent = "";
  const answer = card.querySelector('[data-vibe-action="answer"]');
  if (answer !== null) {
    answer.textContent = "Sent…";
  }
}
