import type { StepTested } from "../contract";

const MARKS = { passed: "✓", failed: "✗", skipped: "–" } as const;

/** An element with its attributes and what is in it. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...inside: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.append(...inside);
  return made;
}

export function button(label: string, kind: string, press: () => void, key = ""): HTMLButtonElement {
  const made = make("button", { type: "button", class: `vibe-button ${kind}`.trim() }, label);
  if (key !== "") {
    made.append(make("kbd", { "aria-hidden": "true" }, key));
  }
  made.addEventListener("click", press);
  return made;
}

let fields = 0;

/** A line of the form: its label and what is chosen there. */
export function field(label: string, control: HTMLElement, ...below: (Node | string)[]): HTMLElement {
  const id = `vibe-field-${String(++fields)}`;
  const name = make("label", { id: `${id}-name`, for: id }, label);
  if (control.matches("input")) {
    control.id = id;
  } else {
    control.setAttribute("aria-labelledby", `${id}-name`);
  }
  return make("div", { class: "vibe-field" }, name, make("div", {}, control, ...below));
}

/** A group of choices of which one counts. */
export function choices<T extends string>(
  name: string,
  options: readonly { id: T; label: Node | string; about?: string }[],
  chosen: T,
  choose: (id: T) => void,
): HTMLElement {
  const group = make("div", { role: "radiogroup", class: "vibe-choices" });
  for (const { id, label, about = "" } of options) {
    const radio = make("input", { type: "radio", name, value: id });
    radio.checked = id === chosen;
    radio.addEventListener("change", () => { choose(id); });
    group.append(make("label", {}, radio, make("span", {}, label), make("small", {}, about)));
  }
  return group;
}

/** What came of one question of the test. */
export function stepLine({ name, state, detail, seconds }: StepTested): HTMLElement {
  const mark = make("b", { role: "img", "aria-label": state }, MARKS[state]);
  const took = seconds === null ? "" : ` ${seconds.toFixed(1)} s`;
  return make("li", { "data-state": state }, mark, ` ${name}${took} `, make("small", {}, detail));
}
