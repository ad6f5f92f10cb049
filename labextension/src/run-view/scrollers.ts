import { focusedIn } from "./focus";

const mayScroll = ".vibe-code, .vibe-output, .vibe-prose pre, table";

/**
 * Let the keyboard reach what scrolls inside the view, under a name; what shows all of itself is no stop.
 *
 * @param gone aborted when the view is removed.
 */
export function watchScrollers(root: HTMLElement, gone: AbortSignal): void {
  // Whatever begins to scroll changed the size of the view before, or has just been put into it.
  const observer = new ResizeObserver(() => {
    for (const element of root.querySelectorAll<HTMLElement>(mayScroll)) {
      mark(element, element.checkVisibility() && scrolls(element));
    }
  });
  observer.observe(root);
  gone.addEventListener("abort", () => { observer.disconnect(); });
}

/** Attributes that `watchScrollers` gives; the kernel knows nothing of them. */
export const givenToScrollers = ["data-vibe-scrolls", "tabindex", "role", "aria-label"];

function scrolls(element: Element): boolean {
  return element.scrollHeight > element.clientHeight + 1 || element.scrollWidth > element.clientWidth + 1;
}

function mark(element: HTMLElement, doesScroll: boolean): void {
  if (doesScroll === element.hasAttribute("data-vibe-scrolls") || element === focusedIn(element)) {
    return;
  }
  if (!doesScroll) {
    givenToScrollers.forEach((name) => {
      element.removeAttribute(name);
    });
    return;
  }
  element.setAttribute("data-vibe-scrolls", "");
  element.tabIndex = 0;
  element.setAttribute("aria-label", nameOf(element));
  if (element.nodeName !== "TABLE") {
    element.setAttribute("role", "group");
  }
}

function nameOf(element: Element): string {
  if (element.nodeName === "TABLE") {
    return "Table";
  }
  return element.matches(".vibe-output") ? "Output" : element.matches(".vibe-diff") ? "Changes" : "Code";
}
