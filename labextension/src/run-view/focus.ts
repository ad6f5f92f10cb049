/** The last line takes the focus of what is gone: it says how the run stands, and the next Tab goes on from there. */
export function focusFoot(root: HTMLElement): void {
  const foot = root.querySelector<HTMLElement>('[data-part="foot"]');
  if (foot !== null) {
    foot.tabIndex = -1;
    foot.setAttribute("role", "group");
    foot.setAttribute("aria-label", "State of the run");
    foot.focus({ preventScroll: true });
  }
}

/**
 * Gives the focus back to the cell when the view goes away with it, so that the next key of the person still means
 * something. Never takes it from anywhere else.
 */
export class FocusKeeper {
  readonly #root: HTMLElement;
  #home: HTMLElement | null = null; // what had keys before us; null while the focus is elsewhere

  constructor(root: HTMLElement) {
    this.#root = root;
    root.addEventListener("focusin", () => {
      this.#home = root.parentElement?.closest<HTMLElement>("[tabindex]") ?? null;
    });
    root.addEventListener("focusout", () => {
      // Removing the view looks the same as leaving it, until a moment later.
      setTimeout(() => {
        if (root.isConnected && !root.contains(document.activeElement)) {
          this.#home = null;
        }
      });
    });
  }

  /** The view was removed. */
  release(): void {
    if (!this.#root.isConnected && document.activeElement === document.body) {
      this.#home?.focus({ preventScroll: true });
    }
  }
}
