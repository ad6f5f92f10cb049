/** What has the focus in the view; null while it is elsewhere. */
export function focusedIn(root: HTMLElement): Element | null {
  const scope = root.getRootNode();
  const focused = scope instanceof ShadowRoot || scope instanceof Document ? scope.activeElement : null;
  return root.contains(focused) ? focused : null;
}

let given: Element | null = null;

/** Move the focus as the user's own press asks. A script of the page moves it without this, and `Leads` tells them apart. */
export function giveFocus(element: HTMLElement | null | undefined, options?: FocusOptions): void {
  given = element ?? null;
  element?.focus(options);
  given = null;
}

/** Whether it is being given the focus; only the first move there counts. */
export function takeGiven(element: Element): boolean {
  const isGiven = given === element;
  given = isGiven ? null : given;
  return isGiven;
}

/** Tell the extension, where it is there, that other cards wait now. */
export function tellCards(): void {
  document.dispatchEvent(new CustomEvent("vibe-cards"));
}

/** Tell the extension, where it is there; whether it took the event. */
export function ask(root: HTMLElement, name: string, detail?: unknown): boolean {
  return !root.dispatchEvent(new CustomEvent(name, { bubbles: true, cancelable: true, composed: true, detail }));
}

/** The last line takes the focus of what is gone: it says how the run stands, and the next Tab goes on from there. */
export function focusFoot(root: HTMLElement): void {
  const foot = root.querySelector<HTMLElement>('[data-part="foot"]');
  if (foot !== null) {
    foot.tabIndex = -1;
    foot.setAttribute("role", "group");
    foot.setAttribute("aria-label", "State of the run");
    giveFocus(foot, { preventScroll: true });
  }
}

/**
 * Gives the focus back to the cell when the view goes away with it, so that the next key of the user still means
 * something. Never takes it from anywhere else.
 */
export class FocusKeeper {
  readonly #root: HTMLElement;
  #home: HTMLElement | null = null; // what had keys before us; null while the focus is elsewhere

  /**
   * @param host what stands in the page for the view.
   * @param gone aborted when the view is removed.
   */
  constructor(host: HTMLElement, root: HTMLElement, gone: AbortSignal) {
    this.#root = root;
    host.addEventListener("focusin", () => {
      this.#home = host.parentElement?.closest<HTMLElement>("[tabindex]") ?? null;
    }, { signal: gone });
    host.addEventListener("focusout", () => {
      // Removing the view looks the same as leaving it, until a moment later.
      setTimeout(() => {
        if (root.isConnected && document.activeElement !== host) {
          this.#home = null;
        }
      });
    }, { signal: gone });
  }

  /** The view was removed. */
  release(): void {
    if (!this.#root.isConnected && document.activeElement === document.body) {
      this.#home?.focus({ preventScroll: true });
    }
  }
}
