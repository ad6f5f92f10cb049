import type { LabIcon } from "@jupyterlab/ui-components";

/** A button of ours in the page. */
export function button(label: string, press: () => void, isPrimary = false): HTMLButtonElement {
  const made = document.createElement("button");
  made.type = "button";
  made.className = isPrimary ? "vibe-action vibe-action-primary" : "vibe-action";
  made.append(label);
  made.addEventListener("click", press);
  return made;
}

/** The same with an icon alone. */
export function iconButton(icon: LabIcon, label: string, press: () => void): HTMLButtonElement {
  const made = button("", press);
  made.classList.add("vibe-action-quiet", "vibe-action-icon");
  relabel(made, icon, label);
  return made;
}

/** Give it another icon, and the words that say the same. */
export function relabel(made: HTMLElement, icon: LabIcon, label: string): void {
  made.replaceChildren(icon.element({ tag: "span" }));
  made.setAttribute("aria-label", label);
  made.title = label;
}

export function hint(words: string): HTMLElement {
  const made = document.createElement("span");
  made.className = "vibe-action-hint";
  made.textContent = words;
  return made;
}

/** The key that presses a button, which says so for itself to screen readers. */
export function key(name: string): HTMLElement {
  const made = document.createElement("kbd");
  made.textContent = name;
  made.setAttribute("aria-hidden", "true");
  return made;
}

/** A field of as many lines as its text has; keys of the notebook do nothing in it. */
export function textField(label: string): HTMLTextAreaElement {
  const field = document.createElement("textarea");
  field.rows = 1;
  field.placeholder = label;
  field.setAttribute("aria-label", label);
  field.setAttribute("data-lm-suppress-shortcuts", "true");
  field.addEventListener("keydown", (event) => { event.stopPropagation(); }); // the notebook gives the focus to its cell
  field.addEventListener("input", () => {
    field.style.height = "auto";
    field.style.height = `${String(field.scrollHeight)}px`;
  });
  return field;
}
