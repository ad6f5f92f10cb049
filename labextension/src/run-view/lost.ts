import { stillGoing } from "./clock";

/** The kernel that held the run is gone: say so, and let nothing be pressed in vain. */
export function showLost(root: HTMLElement): void {
  const foot = root.querySelector<HTMLElement>(stillGoing);
  if (foot === null) {
    return;
  }
  foot.dataset.state = "stopped";
  foot.querySelector('button[data-vibe-action="stop"]')?.remove();
  const state = foot.querySelector(".vibe-state");
  state?.replaceChildren(...state.querySelectorAll(".vibe-dot"), "Stopped: the kernel is no longer running");
  root.querySelectorAll<HTMLElement>('.vibe-step[data-outcome="running"]').forEach((step) => {
    step.dataset.outcome = "interrupted";
    step.querySelector(":scope > .vibe-came, :scope > summary > .vibe-came")?.replaceChildren("interrupted");
  });
  root.querySelectorAll<HTMLButtonElement | HTMLInputElement>("button, input, textarea").forEach((control) => {
    control.disabled = true;
  });
}
