/** What a run view asks of the page around it: can code become a cell, and make it one. Both are answered by `preventDefault`. */
export const CAN_KEEP = "vibe-can-keep-code";
export const KEEP_CODE = "vibe-keep-code";

export const LABEL = "Keep this code as a cell";
export const KEPT = "Kept as a cell below";

const RAN = "Ran code";
const NOT_AS_IT_RAN = /⟨(?:U\+[0-9A-F]{4,6}|[\d,]+ blanks)⟩|^… [\d,]+ characters left out …$/m;

/** Where a step of a run, live or kept, shows the code that it ran; null where that is not shown whole, as it ran. */
export function shownCode(step: HTMLDetailsElement): HTMLElement | null {
  const verb = step.querySelector(":scope > summary b");
  const code = step.querySelector<HTMLElement>(":scope > div > pre:first-child > code");
  return verb?.textContent === RAN && code !== null && isAsItRan(code.textContent) ? code : null;
}

/** Whether a text holds nothing that was written out or left out to be shown. */
export function isAsItRan(text: string): boolean {
  return !NOT_AS_IT_RAN.test(text);
}

/** The button below the code of a step, once; `keep` says whether there is a cell of it now. */
export function offerToKeep(step: HTMLDetailsElement, className: string, keep: (code: string) => boolean): void {
  const code = shownCode(step);
  const place = code?.parentElement;
  if (code === null || place == null || place.nextElementSibling?.matches("button") === true) {
    return;
  }
  const button = document.createElement("button");
  button.type = "button";
  button.className = className;
  button.textContent = LABEL;
  button.addEventListener("click", ({ isTrusted }) => {
    if (isTrusted && keep(code.textContent.replace(/\n$/, ""))) {
      button.disabled = true;
      button.textContent = KEPT;
    }
  });
  place.after(button);
}
