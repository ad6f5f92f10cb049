/**
 * The cells that an answer names: by the number that the kernel knew, until a page that shows the notebook says which
 * they have now. Then each is a link to its cell. What stands outside the view asks and answers in events.
 */
export class CellLinks {
  readonly #host: HTMLElement;
  readonly #root: HTMLElement;
  #numbers: ReadonlyMap<string, number> = new Map();

  /** @param gone aborted when the view is removed. */
  constructor(host: HTMLElement, root: HTMLElement, gone: AbortSignal) {
    this.#host = host;
    this.#root = root;
    host.addEventListener("vibe-cell-numbers", (event) => {
      this.#numbers = (event as CustomEvent<ReadonlyMap<string, number>>).detail;
      this.#draw();
    }, { signal: gone });
    root.addEventListener("click", (event) => { this.#follow(event); }, { signal: gone });
    root.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        this.#follow(event);
      }
    }, { signal: gone });
  }

  /** The view changed: bring what it names up to date. */
  refresh(): void {
    if (this.#links().length > 0) {
      this.#host.dispatchEvent(new CustomEvent("vibe-cells", { bubbles: true }));
    }
  }

  #links(): HTMLElement[] {
    return Array.from(this.#root.querySelectorAll<HTMLElement>(".vibe-cell"));
  }

  #draw(): void {
    for (const link of this.#links()) {
      const number = this.#numbers.get(link.dataset.cell ?? "");
      const words = number === undefined ? link.textContent : link.textContent.replace(/\d+$/, String(number));
      if (link.textContent !== words) {
        link.textContent = words;
      }
      if (number === undefined) {
        link.removeAttribute("role");
        link.removeAttribute("tabindex");
      } else if (link.getAttribute("role") !== "link") {
        link.setAttribute("role", "link");
        link.tabIndex = 0;
      }
    }
  }

  #follow(event: Event): void {
    const link = event.target instanceof Element ? event.target.closest<HTMLElement>(".vibe-cell[role]") : null;
    if (link !== null) {
      event.preventDefault();
      this.#host.dispatchEvent(new CustomEvent("vibe-cell-wanted", { bubbles: true, detail: link.dataset.cell }));
    }
  }
}
