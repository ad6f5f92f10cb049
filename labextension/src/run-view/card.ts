import type { Command } from "../contract";
import { focusedIn, giveFocus } from "./focus";

const MIN_EDITOR = 3; // lines
const MAX_EDITOR = 20; // lines; more scroll
const EDITED = " (edited)"; // behind the label of a button that allows an edit

/** The parts of one approval card, found in the HTML the kernel made. */
export class Card {
  readonly element: HTMLElement;

  constructor(element: HTMLElement) {
    this.element = element;
  }

  static around(node: Element): Card | null {
    const element = node.closest<HTMLElement>("[data-vibe-approval]");
    return element === null ? null : new Card(element);
  }

  get id(): string {
    return this.element.dataset.vibeApproval ?? "";
  }

  /** Whether no key may approve it by accident: it cannot be undone, or reaches beyond this computer. */
  get isHighRisk(): boolean {
    return this.element.dataset.risk === "high";
  }

  /** Give it the focus for a press on another card. */
  focus(): void {
    giveFocus(this.start);
    this.element.scrollIntoView({ block: "nearest" });
  }

  /** Where the keyboard begins: at the way out, where the way on weighs much. */
  get start(): HTMLElement {
    const start = this.isHighRisk ? this.button("deny") : this.element.querySelector<HTMLElement>(".vibe-question:not([hidden]) input");
    return start ?? this.element;
  }

  approval(remember: "once" | "session" | "project"): Command {
    return { type: "approve", approval_id: this.id, remember, edited: this.#edited() };
  }

  rejection(): Command {
    return { type: "reject", approval_id: this.id, message: this.#denyMessage?.value.trim() ?? "" };
  }

  /** Swap the shown code for an editor, or throw the edit away; what is visible is what would run. */
  toggleEditor(): void {
    const editor = this.#editor;
    if (editor === null) {
      return;
    }
    const opening = editor.hasAttribute("hidden");
    this.#swapEditor(editor, opening);
    giveFocus(opening ? editor : this.element, { preventScroll: true });
  }

  #swapEditor(editor: HTMLTextAreaElement, opening: boolean): void {
    editor.value = editor.defaultValue;
    editor.toggleAttribute("hidden", !opening);
    editor.rows = Math.min(Math.max(editor.value.split("\n").length, MIN_EDITOR), MAX_EDITOR);
    for (const shown of this.element.querySelectorAll(":scope > :is(.vibe-code, .vibe-words, .vibe-effects)")) {
      shown.toggleAttribute("hidden", opening);
    }
    this.element.toggleAttribute("data-editing", opening);
    setLabel(this.button("edit"), opening ? "Discard edit" : "Edit");
    this.showEdited();
  }

  /** What the user is writing in the open editor; null where it is not open. */
  get draft(): { text: string; caret: number; hasFocus: boolean } | null {
    const editor = this.#editor;
    if (editor === null || editor.hasAttribute("hidden")) {
      return null;
    }
    return { text: editor.value, caret: editor.selectionEnd, hasFocus: focusedIn(editor) !== null };
  }

  /** Go on with what was being written. */
  resume({ text, caret, hasFocus }: { text: string; caret: number; hasFocus: boolean }): void {
    const editor = this.#editor;
    if (editor !== null) {
      this.#swapEditor(editor, true);
      editor.value = text;
      this.showEdited();
      if (hasFocus) {
        editor.focus({ preventScroll: true });
        editor.setSelectionRange(caret, caret);
      }
    }
  }

  /** As `toggleEditor`, but an edit that is open already is only gone back to, never thrown away. */
  openEditor(): void {
    if (this.#editor?.hasAttribute("hidden") === false) {
      giveFocus(this.#editor, { preventScroll: true });
    } else {
      this.toggleEditor();
    }
  }

  /** Say on the button that it allows the user's version. */
  showEdited(): void {
    const button = this.button("approve");
    const label = (button?.firstChild?.textContent ?? "").replace(EDITED, "");
    setLabel(button, this.#edited() === null ? label : label + EDITED);
  }

  /** The row of buttons becomes a line for a reason. */
  openDenial(): void {
    this.#denial?.removeAttribute("hidden");
    this.#footer?.setAttribute("hidden", "");
    giveFocus(this.#denyMessage, { preventScroll: true });
  }

  /** Fold the menu of longer permissions. */
  closeMenu(): void {
    const menu = this.element.querySelector<HTMLDetailsElement>(".vibe-menu");
    menu?.removeAttribute("open");
    giveFocus(menu?.querySelector("summary"), { preventScroll: true });
  }

  closeDenial(): void {
    this.#denial?.setAttribute("hidden", "");
    this.#footer?.removeAttribute("hidden");
    giveFocus(this.isHighRisk ? this.button("deny") : this.element, { preventScroll: true });
  }

  /** One decision: nothing can be pressed any more, until the kernel takes the card away. */
  showSent(): void {
    for (const control of this.element.querySelectorAll<HTMLButtonElement>("button, input, textarea")) {
      control.disabled = true;
    }
    this.element.dataset.sent = "";
    setLabel(this.button("approve"), "Sent…");
  }

  button(action: string): HTMLButtonElement | null {
    return this.element.querySelector(`button[data-vibe-action="${action}"]`);
  }

  #edited(): string | null {
    const editor = this.#editor;
    return editor === null || editor.hasAttribute("hidden") || editor.value === editor.defaultValue ? null : editor.value;
  }

  get #editor(): HTMLTextAreaElement | null {
    return this.element.querySelector("textarea.vibe-editor");
  }

  get #footer(): Element | null {
    return this.element.querySelector(":scope > footer");
  }

  get #denial(): Element | null {
    return this.element.querySelector(".vibe-deny");
  }

  get #denyMessage(): HTMLInputElement | null {
    return this.element.querySelector("input.vibe-deny-message");
  }
}

/** Change the words of a button and leave its key. */
function setLabel(button: HTMLButtonElement | null, label: string): void {
  const words = button?.firstChild;
  if (words instanceof Text) {
    words.data = label;
  }
}
