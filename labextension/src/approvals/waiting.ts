import type { Cell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";

const WAITING = ":is([data-vibe-approval], [data-vibe-question], [data-vibe-review], [data-vibe-connect]):not([data-sent])";

/** A card that waits for the user. */
export interface WaitingCard {
  id: string;
  kind: "card" | "connect";
  /** What it asks, such as `Approval: Run code`. */
  title: string;
  /** Ids of the cells that it asks to change. */
  changes: string[];
  cell: Cell;
  /** What stands in the page for the view it is in. */
  host: HTMLElement;
  hasFocus: boolean;
}

/** The cards of a notebook, in reading order; those of cells out of view too, which are not in the page. */
export function waitingCards(panel: NotebookPanel): WaitingCard[] {
  return panel.content.widgets.flatMap((cell) =>
    Array.from(cell.node.querySelectorAll<HTMLElement>(".vibe-run-host")).flatMap((host) =>
      cardsIn(host).map((card) => ({
        id: card.dataset.vibeApproval ?? card.dataset.vibeQuestion ?? card.dataset.vibeReview ?? card.dataset.vibeConnect ?? "",
        kind: card.dataset.vibeConnect === undefined ? "card" as const : "connect" as const,
        title: card.getAttribute("aria-label") ?? "",
        changes: changesOf(card),
        cell,
        host,
        hasFocus: card.contains(host.shadowRoot?.activeElement ?? null),
      })),
    ),
  );
}

/** The cards of one view that wait. */
export function cardsIn(host: HTMLElement): HTMLElement[] {
  return Array.from(host.shadowRoot?.querySelectorAll<HTMLElement>(WAITING) ?? []);
}

const CHANGES = "data-vibe-cells";

/** The card may name them itself, or each of its rows does. */
function changesOf(card: HTMLElement): string[] {
  const all = [card, ...card.querySelectorAll(`[${CHANGES}]`)];
  return all.flatMap((one) => one.getAttribute(CHANGES)?.split(" ") ?? []);
}
