import { type EditedText, HAS_EDITOR, OPEN_EDITOR } from "../full-editor/edited-text";

const EDITORS = "textarea.vibe-editor";
const MARK = "vibe-full-editor-opener";
const PYTHON = /\b(?:code|cell)\b/;

/** Lets what a card proposes be edited in a tab of its own, where the page around the view has one. */
export class FullEditorOpener {
  readonly #host: HTMLElement;
  readonly #root: HTMLElement;

  constructor(host: HTMLElement, root: HTMLElement) {
    this.#host = host;
    this.#root = root;
  }

  /** Give the cards that came a button. */
  refresh(): void {
    for (const field of this.#root.querySelectorAll<HTMLTextAreaElement>(EDITORS)) {
      if (field.nextElementSibling?.classList.contains(MARK) !== true && this.#ask(new CustomEvent(HAS_EDITOR, answered))) {
        field.after(this.#button(field));
      }
    }
  }

  #button(field: HTMLTextAreaElement): HTMLElement {
    const button = document.createElement("button");
    button.type = "button";
    button.className = `vibe-button vibe-quiet ${MARK}`; // shown while the field is
    button.textContent = "Open in editor";
    button.addEventListener("click", () => {
      const detail = editedText(field);
      this.#ask(new CustomEvent(OPEN_EDITOR, { ...answered, detail }));
    });
    return button;
  }

  /** Whether somebody outside took it. */
  #ask(event: Event): boolean {
    return !this.#host.dispatchEvent(event);
  }
}

const answered = { bubbles: true, cancelable: true };

/** What is saved stands in the card, as if it had been typed there; it runs when the card is allowed. */
function editedText(field: HTMLTextAreaElement): EditedText {
  const title = field.closest("[aria-label^='Approval']")?.getAttribute("aria-label") ?? "Approval";
  return {
    title,
    text: field.value,
    mimeType: PYTHON.test(title) ? "text/x-python" : "text/plain",
    save: (text) => {
      const isOpen = field.isConnected && !field.disabled;
      if (isOpen) {
        field.value = text;
        field.dispatchEvent(new Event("input", { bubbles: true }));
      }
      return isOpen;
    },
  };
}
