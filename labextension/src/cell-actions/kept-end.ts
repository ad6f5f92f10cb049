import type { CodeCell, ICodeCellModel } from "@jupyterlab/cells";

import { METADATA_KEY } from "../bridge/handlers/remember";

const FOOT = /^[●○] /;
const CHANGED = "Changed";
const SHORTENED = /^… [\d,]+ characters left out …$/m;

/** The last lines of what a run left in its cell. */
export interface KeptEnd {
  /** How it ended; all that it left where it has no line for that. */
  foot: HTMLElement;
  /** What it changed; null where it names nothing. */
  changed: HTMLElement | null;
  /** What it answered, as Markdown, or as it is shown where that was shortened. */
  answer: string;
}

/** Where the last lines of a run stand in the page: by what the output's metadata say, which no HTML can claim. */
export function keptEnd({ model, outputArea }: CodeCell): KeptEnd | null {
  const at = lastOfRun(model);
  const all = outputArea.widgets[at]?.node.querySelector<HTMLElement>(".jp-RenderedHTML > div");
  if (all == null) {
    return null;
  }
  const last = all.lastElementChild;
  const foot = last instanceof HTMLElement && FOOT.test(last.textContent) ? last : all;
  const before = foot.previousElementSibling;
  const changed = before instanceof HTMLElement && before.firstElementChild?.textContent === CHANGED ? before : null;
  const text = model.outputs.get(at).data["text/plain"];
  const plain = answerIn(Array.isArray(text) ? text.join("") : typeof text === "string" ? text : "");
  const shown = (changed ?? foot).previousElementSibling;
  return { foot, changed, answer: SHORTENED.test(plain) && shown instanceof HTMLElement ? shown.innerText : plain };
}

/** The place of the output with which a run ended; -1 for none. */
function lastOfRun({ outputs }: ICodeCellModel): number {
  let at = outputs.length - 1;
  while (at >= 0 && outputs.get(at).metadata[METADATA_KEY] === undefined) {
    at--;
  }
  return at;
}

/** The answer in the plain text that a run leaves, without the lines on what it changed and how it ended. */
export function answerIn(plain: string): string {
  const parts = plain.split("\n\n").slice(0, -1);
  return (parts.at(-1)?.startsWith(`${CHANGED}: `) === true ? parts.slice(0, -1) : parts).join("\n\n");
}
