import { Card } from "./card";
import { focusedIn, giveFocus } from "./focus";
import type { PartKind, ViewPart, ViewPatch } from "../contract";
import { alike, morph } from "./morph";

const CARDS = ["data-vibe-approval", "data-vibe-question", "data-vibe-review"];

/** The parts of a run in the page: one wrapper a part, named by `data-part`, the foot always last. */
export class View {
  readonly #root: HTMLElement;
  readonly #parts = new Map<string, HTMLElement>();
  readonly #growing = new Map<string, string>(); // HTML of the texts that grow: the kernel sends what is new of it

  constructor(root: HTMLElement) {
    this.#root = root;
  }

  /** Show exactly these parts, in this order. */
  show(parts: readonly ViewPart[]): void {
    const kept = new Set(parts.map((part) => part.id));
    for (const id of Array.from(this.#parts.keys())) {
      if (!kept.has(id)) {
        this.#remove(id);
      }
    }
    let next = this.#root.firstElementChild;
    for (const part of parts) {
      const wrapper = this.#wrapper(part.id);
      this.#fill(wrapper, part.id, part.kind, part.html);
      this.#place(wrapper, next);
      next = wrapper.nextElementSibling;
    }
  }

  apply(patch: ViewPatch): void {
    if (patch.remove === true) {
      this.#remove(patch.id);
    } else if (patch.kind !== undefined) {
      this.#put(patch);
    }
  }

  #put({ id, kind = "prose", html = "", keep = 0, before }: ViewPatch): void {
    const isNew = !this.#parts.has(id);
    const wrapper = this.#wrapper(id);
    this.#fill(wrapper, id, kind, (this.#growing.get(id) ?? "").slice(0, keep) + html);
    if (id === "foot") {
      this.#place(wrapper, null);
    } else if (isNew || before !== undefined) {
      this.#place(wrapper, this.#parts.get(before ?? "foot") ?? null);
    }
  }

  #fill(wrapper: HTMLElement, id: string, kind: PartKind, html: string): void {
    fill(wrapper, kind, html);
    if (kind === "tail") {
      this.#growing.set(id, html);
    } else {
      this.#growing.delete(id);
    }
  }

  /** Put it in front of another one. Moving an element would take the focus from it, so only if it must. */
  #place(wrapper: Element, follower: Element | null): void {
    const stands = wrapper.parentElement === this.#root;
    if (wrapper !== follower && !(stands && wrapper.nextElementSibling === follower)) {
      this.#root.insertBefore(wrapper, follower);
    }
  }

  #wrapper(id: string): HTMLElement {
    let wrapper = this.#parts.get(id);
    if (wrapper === undefined) {
      wrapper = document.createElement("div");
      wrapper.dataset.part = id;
      this.#parts.set(id, wrapper);
    }
    return wrapper;
  }

  #remove(id: string): void {
    this.#parts.get(id)?.remove();
    this.#parts.delete(id);
    this.#growing.delete(id);
  }
}

function fill(wrapper: HTMLElement, kind: string, html: string): void {
  wrapper.dataset.kind = kind;
  const now = wrapper.firstElementChild;
  const next = parse(html);
  if (next === null) {
    now?.remove();
  } else if (now === null || !alike(now, next)) {
    const hadFocus = now instanceof HTMLDetailsElement && focusedIn(now) !== null;
    now?.remove();
    wrapper.prepend(next); // what the cell shows of it stands behind it
    if (hadFocus) {
      giveFocus(next.querySelector("summary"), { preventScroll: true }); // the line that took in the one before
    }
  } else if (cardId(now) === null || cardId(next) === null) {
    morph(now, next);
  } else if (cardId(now) !== cardId(next)) {
    takePlace(now, next);
  }
}

/** A card never changes once it is shown; keeping it keeps what the user is writing in it. */
function cardId(element: Element): string | null {
  return CARDS.map((name) => element.getAttribute(name)).find((id) => id !== null) ?? null;
}

/** The same proposal, shown again: an element of its own, which a press must wait for, with what the user was writing. */
function takePlace(now: Element, next: Element): void {
  const [was, is] = [now, next].map((one) => new Card(one as HTMLElement)) as [Card, Card];
  const hadFocus = focusedIn(was.element) !== null;
  const draft = was.draft;
  now.replaceWith(next);
  if (draft !== null) {
    is.resume(draft);
  }
  if (hadFocus && focusedIn(is.element) === null) {
    is.element.focus({ preventScroll: true });
  }
}

function parse(html: string): Element | null {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}
