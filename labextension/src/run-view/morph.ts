import { givenToScrollers } from "./scrollers";

/**
 * Turns one element into another in place, so that focus, selection, inner scrolling and opened details survive.
 *
 * Children are matched by position: a part grows at its end or changes a word, it is never reordered.
 */
export function morph(from: Element, to: Element): void {
  syncAttributes(from, to);
  const olds = Array.from(from.childNodes);
  const news = Array.from(to.childNodes);
  news.forEach((next, position) => {
    const now = olds[position];
    if (now === undefined) {
      from.append(next);
    } else {
      morphNode(now, next);
    }
  });
  for (const extra of olds.slice(news.length)) {
    extra.remove();
  }
}

/** Whether `morph` may turn one into the other; if not, the new one replaces the old. */
export function alike(from: Element, to: Element): boolean {
  return from.nodeName === to.nodeName && from.getAttribute("class") === to.getAttribute("class");
}

function morphNode(now: ChildNode, next: ChildNode): void {
  if (now instanceof Element && next instanceof Element && alike(now, next)) {
    morph(now, next);
  } else if (now instanceof Text && next instanceof Text) {
    if (now.data !== next.data) {
      now.data = next.data;
    }
  } else {
    now.replaceWith(next);
  }
}

function syncAttributes(from: Element, to: Element): void {
  for (const { name } of Array.from(from.attributes)) {
    if (!to.hasAttribute(name) && !belongsToReader(from, name)) {
      from.removeAttribute(name);
    }
  }
  for (const { name, value } of Array.from(to.attributes)) {
    if (from.getAttribute(name) !== value && !belongsToReader(from, name)) {
      from.setAttribute(name, value);
    }
  }
}

/** What the user opened stays open, and what the keyboard can reach stays in its reach. */
function belongsToReader(element: Element, name: string): boolean {
  const isOpen = element instanceof HTMLDetailsElement && name === "open";
  return isOpen || (element.hasAttribute("data-vibe-scrolls") && givenToScrollers.includes(name));
}
