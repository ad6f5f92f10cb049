import type { LabIcon } from "@jupyterlab/ui-components";

import { button } from "../cell-actions/elements";

/** An element with a class and what is in it. */
export function part(tag: string, name: string, ...inside: (Node | string)[]): HTMLElement {
  const made = document.createElement(tag);
  made.className = name;
  made.append(...inside);
  return made;
}

/** A part of the panel with a heading; what stands beside the heading comes second. */
export function section(title: string, beside: (Node | string)[], ...inside: Node[]): HTMLElement {
  const made = part("section", "vibe-panel-section");
  const heading = part("h3", "vibe-panel-heading", title);
  made.setAttribute("aria-label", title);
  made.append(part("div", "vibe-panel-top", heading, ...beside), ...inside);
  return made;
}

/** What a line of a list says. */
export interface Line {
  title: Node | string;
  below: string;
  /** The colour of its dot: what it means stands in words, too. */
  dot?: "good" | "bad" | "waiting" | "none";
  /** In place of the dot: its kind, which the words say, too. */
  icon?: LabIcon;
  isPresent?: boolean;
}

/** What stands for a kind of thing. */
export function iconOf(icon: LabIcon): HTMLElement {
  return icon.element({ tag: "span", className: "vibe-panel-icon" });
}

export function line({ title, below, dot, icon, isPresent = false }: Line, ...beside: (Node | string)[]): HTMLElement {
  const made = part("li", "vibe-panel-line");
  if (dot !== undefined) {
    made.append(part("i", `vibe-panel-dot vibe-panel-${dot}`));
  }
  if (icon !== undefined) {
    made.append(iconOf(icon));
  }
  if (isPresent) {
    made.setAttribute("aria-current", "true");
  }
  const words = part("span", "vibe-panel-words", part("span", "vibe-panel-title", title));
  if (below !== "") {
    words.append(part("span", "vibe-panel-below", below));
    words.title = `${typeof title === "string" ? title : title.textContent ?? ""}\n${below}`;
  }
  made.append(words, ...beside);
  return made;
}

export function list(lines: readonly Node[]): HTMLElement {
  return part("ul", "vibe-panel-list", ...lines);
}

/** A button that the kernel answers, so that it rests while the kernel is busy. */
export function order(label: string, press: () => void, about = ""): HTMLButtonElement {
  const made = button(label, press);
  made.dataset.kernel = "";
  if (about !== "") {
    made.setAttribute("aria-label", `${label}: ${about}`);
  }
  return made;
}

/** The same as words in a line. */
export function link(label: string, press: () => void): HTMLButtonElement {
  const made = button(label, press);
  made.className = "vibe-panel-link";
  return made;
}

/** Such as 950, 18.0k and 128k. */
export function thousands(count: number): string {
  return count < 1000 ? String(count) : `${(count / 1000).toFixed(count < 100_000 ? 1 : 0)}k`;
}
