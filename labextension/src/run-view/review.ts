import { focusFoot, focusedIn, giveFocus } from "./focus";
import type { Gate } from "./gate";
import type { Command } from "../contract";

const CARD = "[data-vibe-review]";

/** The card of several changes: boxes, buttons that follow them, and one decision for each change. */
export class Reviews {
  readonly #root: HTMLElement;
  readonly #gate: Gate;
  readonly #send: (command: Command) => void;

  /** @param gone aborted when the view is removed. */
  constructor(root: HTMLElement, gate: Gate, send: (command: Command) => void, gone: AbortSignal) {
    this.#root = root;
    this.#gate = gate;
    this.#send = send;
    const options = { signal: gone };
    root.addEventListener("click", (event) => {
      const button = event.target instanceof Element ? event.target.closest("button[data-vibe-action]") : null;
      const card = button?.closest<HTMLElement>(CARD);
      if (button !== null && card instanceof HTMLElement && event.isTrusted) {
        this.#act(card, button.getAttribute("data-vibe-action") ?? "", event);
      }
    }, options);
    root.addEventListener("keydown", (event) => { this.#key(event); }, options);
    root.addEventListener("change", ({ target }) => {
      const card = target instanceof Element ? target.closest<HTMLElement>(CARD) : null;
      if (card !== null && target instanceof HTMLInputElement) {
        follow(card, target);
      }
    }, options);
  }

  #key(event: KeyboardEvent): void {
    const { target } = event;
    const card = target instanceof Element ? target.closest<HTMLElement>(CARD) : null;
    if (card === null || !(target instanceof Element) || !event.isTrusted) {
      return;
    }
    const row = target.closest<HTMLDetailsElement>("details");
    const action = event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.isComposing ? null : reviewAction(event, target);
    if (action !== null) {
      event.preventDefault();
      this.#act(card, action, event);
    } else if (row !== null && (event.key === "ArrowRight" || event.key === "ArrowLeft")) {
      event.preventDefault();
      row.open = event.key === "ArrowRight";
    }
    if (action !== null || target.matches("input")) {
      event.stopPropagation();
    }
  }

  #act(card: HTMLElement, action: string, event: MouseEvent | KeyboardEvent): void {
    if (card.dataset.sent !== undefined || (action.startsWith("approve") && !this.#gate.accepts(card, event))) {
      return;
    }
    const line = card.querySelector<HTMLElement>(".vibe-deny");
    const words = card.querySelector<HTMLInputElement>(".vibe-deny-message");
    switch (action) {
      case "approve-all":
        this.#decide(card, () => true);
        break;
      case "approve-selected":
        if (boxes(card).some((box) => box.checked)) {
          this.#decide(card, (box) => box.checked);
        }
        break;
      case "reject":
        line?.removeAttribute("hidden");
        giveFocus(words, { preventScroll: true });
        break;
      case "reject-now":
        this.#decide(card, () => false, words?.value.trim());
        break;
      case "back":
        line?.setAttribute("hidden", "");
        giveFocus(card, { preventScroll: true });
        break;
    }
  }

  /** Each change has its own decision, in their order. */
  #decide(card: HTMLElement, accepts: (box: HTMLInputElement) => boolean, message = ""): void {
    const commands = boxes(card).map((box): Command => {
      const id = box.closest<HTMLElement>("[data-vibe-change]")?.dataset.vibeChange ?? "";
      return accepts(box)
        ? { type: "approve", approval_id: id, remember: "once", edited: null }
        : { type: "reject", approval_id: id, message };
    });
    if (focusedIn(card) !== null) {
      focusFoot(this.#root);
    }
    card.dataset.sent = "";
    for (const control of card.querySelectorAll<HTMLButtonElement | HTMLInputElement>("button, input")) {
      control.disabled = true;
    }
    commands.forEach((command) => { this.#send(command); });
  }
}

/** What a key means on the card: Enter is the primary button, which follows the boxes; null where it keeps its own meaning. */
export function reviewAction({ key, shiftKey }: { key: string; shiftKey: boolean }, target: Pick<Element, "matches">): string | null {
  if (target.matches(".vibe-deny-message")) {
    return key === "Enter" ? "reject-now" : key === "Escape" ? "back" : null;
  }
  if (key === "Enter") {
    return target.matches("button:not(.vibe-primary), summary") ? null : shiftKey ? "approve-all" : "approve-selected";
  }
  return key === "Escape" ? "reject" : null;
}

/** What the primary button says: it never takes what is not checked. */
export function acceptLabel(checked: number, all: number): string {
  return checked === all ? "Accept all" : `Accept selected (${String(checked)})`;
}

function boxes(card: HTMLElement): HTMLInputElement[] {
  return Array.from(card.querySelectorAll<HTMLInputElement>(".vibe-select"));
}

/** A box was checked or cleared: the others and the buttons follow. */
function follow(card: HTMLElement, changed: HTMLInputElement): void {
  const all = boxes(card);
  if (changed.matches(".vibe-select-all")) {
    all.forEach((box) => { box.checked = changed.checked; });
  }
  const checked = all.filter((box) => box.checked).length;
  const head = card.querySelector<HTMLInputElement>(".vibe-select-all");
  if (head !== null) {
    head.checked = checked === all.length;
    head.indeterminate = checked > 0 && checked < all.length;
  }
  const primary = card.querySelector<HTMLButtonElement>('[data-vibe-action="approve-selected"]');
  if (primary?.firstChild instanceof Text) {
    primary.firstChild.data = acceptLabel(checked, all.length);
    primary.disabled = checked === 0;
  }
  card.querySelector('[data-vibe-action="approve-all"]')?.toggleAttribute("hidden", checked === all.length);
}
