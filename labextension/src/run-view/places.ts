const MARK = "data-vibe-view";
const OUTPUTS = ".jp-OutputArea";
const STEP = "data-vibe-step";
const RUNNING = '[data-part]:has(> [data-outcome="running"])';
const OUTPUT = ".jp-OutputArea-child";
const KEPT = "vibe-kept";
const OUTPUTS_OF = "vibe-outputs-of-";
const AFTER = "vibe-after";

const GONE_AFTER = 100; // ms in which a front end renews an output
const LOST_AFTER = 400; // ms more, since a front end may be slow to draw what is long

interface Run {
  id: string;
  /** Ask the kernel for a snapshot; throws where there is no kernel any more. */
  ask: () => void;
  /** Say that the output is no more which it was drawn over; throws as `ask` does. */
  lost: () => void;
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
    for (const [host, marks] of found) {
      if (this.#covered.has(host)) {
        distribute(host, marks);
        align(host, marks);
      } else if (!this.#asked.has(host)) {
        this.#asked.add(host);
        this.#tell(this.#run.ask);
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

  #tell(what: () => void): void {
    try {
      what();
    } catch {
      this.#gone.abort();
    }
  }

  /** The marks of the run's pieces, by the output area they are in. */
  #found(): Map<HTMLElement, HTMLElement[]> {
    const found = new Map<HTMLElement, HTMLElement[]>();
    for (const mark of document.querySelectorAll<HTMLElement>(`[${MARK}^="${this.#run.id}"]`)) {
      const host = mark.closest<HTMLElement>(OUTPUTS) ?? mark.parentElement ?? mark;
      found.set(host, [...(found.get(host) ?? []), mark]);
    }
    return found;
  }

  #leave(): void {
    const found = this.#found();
    for (const [host, uncover] of this.#covered) {
      if (host.isConnected && !found.has(host)) {
        this.#covered.delete(host);
        uncover();
        setTimeout(() => { this.#lose(host); }, LOST_AFTER);
      }
    }
  }

  /** Nothing has come in the place of what the user cleared. */
  #lose(host: HTMLElement): void {
    if (!this.#gone.signal.aborted && host.isConnected && this.#found().size === 0) {
      this.#tell(this.#run.lost);
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

/** Hide the static form, put what a step showed into the step, and the rest behind the view. */
function distribute(host: HTMLElement, marks: readonly HTMLElement[]): void {
  const shadow = host.shadowRoot;
  let isBefore = true;
  let shown: HTMLElement[] = []; // since the mark before
  const give = (part: Element | null | undefined): void => {
    shown.forEach((child) => { assign(child, part == null ? stays(child, shadow) : outputsOf(part)); });
    shown = [];
  };
  for (const child of Array.from(host.children) as HTMLElement[]) {
    const mark = marks.find((one) => child.contains(one));
    if (mark !== undefined) {
      const step = mark.getAttribute(STEP);
      give(step === null ? running(shadow) : shadow?.querySelector(`[data-part="${CSS.escape(step)}"]`));
      assign(child, KEPT);
      isBefore = false;
    } else if (isBefore || !child.matches(OUTPUT)) {
      assign(child, isBefore ? "" : AFTER);
    } else {
      shown.push(child);
    }
  }
  give(running(shadow));
}

function assign(child: HTMLElement, name: string): void {
  if (child.slot !== name) {
    child.slot = name;
  }
}

/** The part that runs code now: of many, the last that began. */
function running(shadow: ShadowRoot | null): Element | undefined {
  return Array.from(shadow?.querySelectorAll(RUNNING) ?? []).at(-1);
}

/** Where an output belongs of which nobody says whose it is: into its step if it is in one, else behind the view. */
function stays({ slot: name }: HTMLElement, shadow: ShadowRoot | null): string {
  const isInStep = name.startsWith(OUTPUTS_OF) && shadow?.querySelector(`slot[name="${CSS.escape(name)}"]`) != null;
  return isInStep ? name : AFTER;
}

/** The name of the place in a part for what the cell shows of it. */
function outputsOf(part: Element): string {
  const name = `${OUTPUTS_OF}${part.getAttribute("data-part") ?? ""}`;
  if (part.lastElementChild?.getAttribute("name") !== name) {
    const place = slot(name);
    place.className = "vibe-outputs";
    part.append(place);
  }
  return name;
}

/** The view stands where the static form stands, which says so as soon as the page shows the cell. */
function align(host: HTMLElement, [mark]: readonly HTMLElement[]): void {
  const outer = host.getBoundingClientRect();
  const inner = mark?.getBoundingClientRect();
  if (inner !== undefined && inner.width > 0) {
    host.style.setProperty("--vibe-left", `${inner.left - outer.left}px`);
    host.style.setProperty("--vibe-right", `${outer.right - inner.right}px`);
    host.style.setProperty("--vibe-width", `${outer.width}px`);
  }
}

function slot(name: string): HTMLSlotElement {
  const one = document.createElement("slot");
  one.name = name;
  return one;
}
