const MARK = "data-vibe-view";
const OUTPUTS = ".jp-OutputArea";
const KEPT = "vibe-kept";
const AFTER = "vibe-after";

const GONE_AFTER = 100; // ms in which a front end renews an output

interface Run {
  id: string;
  /** Ask the kernel for a snapshot; throws where there is no kernel any more. */
  ask: () => void;
  /** Draw the view into a shadow tree, in front of one of its elements; gives what takes it away again. */
  draw: (host: HTMLElement, shadow: ShadowRoot, before: Element) => () => void;
}

/**
 * Finds the outputs that hold the static form of a run, and covers each with the live view, in a shadow tree of all that
 * the cell shows. What is below stays: the front end renews it unseen, and it is there as soon as nothing covers it.
 */
export class Places {
  readonly #run: Run;
  readonly #gone: AbortController;
  readonly #asked = new Set<HTMLElement>();
  readonly #covered = new Map<HTMLElement, () => void>();
  readonly #sizes = new ResizeObserver(() => { this.look(); });

  /** @param gone aborted when the run is over. */
  constructor(run: Run, gone: AbortController) {
    this.#run = run;
    this.#gone = gone;
    const observer = new MutationObserver(() => { this.look(); });
    observer.observe(document.body, { childList: true, subtree: true });
    gone.signal.addEventListener("abort", () => {
      observer.disconnect();
      this.#sizes.disconnect();
      this.#covered.forEach((uncover) => { uncover(); });
    });
  }

  /** Ask for what belongs over the outputs that are not covered yet; leave those that show something else now. */
  look(): void {
    const found = this.#found();
    for (const [host, mark] of found) {
      if (this.#covered.has(host)) {
        distribute(host, mark);
        align(host, mark);
      } else if (!this.#asked.has(host)) {
        this.#asked.add(host);
        this.#ask();
      }
    }
    if (Array.from(this.#covered.keys()).some((host) => host.isConnected && !found.has(host))) {
      setTimeout(() => { this.#leave(); }, GONE_AFTER);
    }
  }

  /** The kernel has answered: draw the view where it was asked for, and nothing where a kernel is gone. */
  cover(): void {
    for (const host of this.#found().keys()) {
      if (this.#asked.delete(host)) {
        this.#covered.set(host, this.#cover(host));
        this.#sizes.observe(host);
      }
    }
    this.look();
  }

  #ask(): void {
    try {
      this.#run.ask();
    } catch {
      this.#gone.abort();
    }
  }

  #found(): Map<HTMLElement, HTMLElement> {
    const marks = Array.from(document.querySelectorAll<HTMLElement>(`[${MARK}="${this.#run.id}"]`));
    return new Map(marks.map((mark) => [mark.closest<HTMLElement>(OUTPUTS) ?? mark.parentElement ?? mark, mark]));
  }

  #leave(): void {
    const found = this.#found();
    for (const [host, uncover] of this.#covered) {
      if (host.isConnected && !found.has(host)) {
        this.#covered.delete(host);
        uncover();
      }
    }
  }

  #cover(host: HTMLElement): () => void {
    const shadow = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    const after = slot(AFTER);
    const below = document.createElement("div");
    below.style.cssText = "height:0;overflow:hidden;visibility:hidden;contain:layout paint";
    below.append(slot(KEPT));
    shadow.replaceChildren(slot(""), below, after);
    const end = this.#run.draw(host, shadow, after);
    return () => {
      end();
      if (below.isConnected) { // no other run stands here by now
        Array.from(host.children).forEach((child) => { child.removeAttribute("slot"); });
        shadow.replaceChildren(slot(""));
        shadow.adoptedStyleSheets = [];
      }
    };
  }
}

/** Hide the static form, and put what was shown after it behind the view. */
function distribute(host: HTMLElement, mark: HTMLElement): void {
  let name = "";
  for (const child of Array.from(host.children)) {
    name = child.contains(mark) ? KEPT : name === "" ? "" : AFTER;
    if (child.slot !== name) {
      child.slot = name;
    }
  }
}

/** The view stands where the static form stands, which says so as soon as the page shows the cell. */
function align(host: HTMLElement, mark: HTMLElement): void {
  const outer = host.getBoundingClientRect();
  const inner = mark.getBoundingClientRect();
  if (inner.width > 0) {
    host.style.setProperty("--vibe-left", `${inner.left - outer.left}px`);
    host.style.setProperty("--vibe-right", `${outer.right - inner.right}px`);
  }
}

function slot(name: string): HTMLSlotElement {
  const one = document.createElement("slot");
  one.name = name;
  return one;
}
