import { stillGoing } from "./clock";
import { tellCards } from "./focus";

const ASKING = ":is([data-vibe-approval], [data-vibe-question], [data-vibe-review])";
/** How a run ended whose kernel was started again, or is gone for good. */
const ENDS = {
  restarted: "Kernel restarted · Run cells above and continue",
  gone: "Kernel gone · Restart it, run cells above and continue",
};

/** The kernel that held the run is gone: say so and what to do. Cards are no longer asked, so their buttons go. */
export function showLost(root: HTMLElement, restarts: boolean): void {
  const foot = root.querySelector<HTMLElement>(stillGoing);
  if (foot === null) {
    return;
  }
  foot.dataset.state = "stopped";
  foot.querySelector('button[data-vibe-action="stop"]')?.remove();
  const state = foot.querySelector(".vibe-state");
  state?.replaceChildren(...state.querySelectorAll(".vibe-dot"), restarts ? ENDS.restarted : ENDS.gone);
  root.querySelectorAll<HTMLElement>('.vibe-step[data-outcome="running"]').forEach((step) => {
    step.dataset.outcome = "interrupted";
    step.querySelector(":scope > .vibe-came, :scope > summary > .vibe-came")?.replaceChildren("interrupted");
  });
  root.querySelectorAll<HTMLElement>(ASKING).forEach((card) => {
    card.dataset.sent = ""; // waits for nobody: no chip, no badge, no key leads to it
    card.querySelectorAll(":scope > :is(footer, .vibe-deny, .vibe-readiness)").forEach((part) => { part.remove(); });
  });
  root.querySelectorAll<HTMLButtonElement | HTMLInputElement>("button, input, textarea").forEach((control) => {
    control.disabled = true;
  });
  tellCards();
}
