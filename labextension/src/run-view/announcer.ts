const SHOWN_FOR = 10_000; // ms until the words are taken out of the page again
const NAME = "vibe-announcer";

const announced = new Set<string>(); // by all views of the page: a card in two of them is one card

/**
 * Tells a screen reader what a glance would: that a card waits, a word of ours, how the run ended. Never what streams.
 *
 * The region belongs to the page and outlives the view, since the end of a run takes the view away.
 */
export class Announcer {
  readonly #root: HTMLElement;
  readonly #notices = new WeakSet<Element>();

  constructor(root: HTMLElement) {
    this.#root = root;
    region();
  }

  /** Say what is new in the view. */
  refresh(): void {
    const words: string[] = [];
    for (const notice of this.#root.querySelectorAll(".vibe-notice")) {
      if (!this.#notices.has(notice)) {
        this.#notices.add(notice);
        words.push(notice.textContent);
      }
    }
    for (const card of this.#root.querySelectorAll<HTMLElement>("[data-vibe-approval], [data-vibe-question], [data-vibe-review]")) {
      const id = card.dataset.vibeApproval ?? card.dataset.vibeQuestion ?? card.dataset.vibeReview ?? "";
      if (!announced.has(id) && card.dataset.sent === undefined) {
        announced.add(id);
        words.push(described(card));
      }
    }
    if (words.length > 0) {
      say(words.join(". "));
    }
  }

  /** How the run ended. */
  end(words: string): void {
    say(`Vibe run: ${words}`);
  }
}

function described(card: HTMLElement): string {
  const why = card.querySelector(".vibe-why")?.textContent ?? "";
  const label = card.getAttribute("aria-label") ?? "";
  return [label, why, "Waiting for you"].filter((words) => words !== "").join(". ");
}

/** Say a word of ours once, after what is being read. */
export function say(words: string): void {
  const place = region();
  place.textContent = words;
  setTimeout(() => {
    if (place.textContent === words) {
      place.textContent = "";
    }
  }, SHOWN_FOR);
}

function region(): HTMLElement {
  const known = document.getElementById(NAME);
  if (known !== null) {
    return known;
  }
  const place = document.createElement("div");
  place.id = NAME;
  place.setAttribute("role", "status");
  // Not by the stylesheet, which goes with the last view.
  place.style.cssText = "position:fixed;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap";
  document.body.append(place);
  return place;
}
