import type { IOutput } from "@jupyterlab/nbformat";
import type { IOutputModel } from "@jupyterlab/rendermime";

import { BRIEF_TEXT, type ListedOutput } from "../contract";
import { splitsPair } from "./source";

const TEXTS = ["text/plain", "text/markdown", "text/html"];

const told = new WeakMap<IOutputModel, ListedOutput>();

/** Describe an output. Weighing megabytes takes time, so it is done once, and again after a change. */
export function brief(model: IOutputModel): ListedOutput {
  const known = told.get(model);
  if (known !== undefined) {
    return known;
  }
  const made = briefOf(model.toJSON());
  if (model.type !== "stream") {
    told.set(model, made);
    model.changed.connect(forget);
  }
  return made;
}

function forget(model: IOutputModel): void {
  told.delete(model);
  model.changed.disconnect(forget);
}

export function briefOf(output: IOutput): ListedOutput {
  const type = output.output_type;
  if (type === "stream") {
    const text = joined(output.text);
    return { type, mimes: [], size: bytes(text), text: head(text) };
  }
  if (type === "error") {
    const size = bytes(joined(output.traceback));
    return { type, mimes: [], size, text: head(`${joined(output.ename)}: ${joined(output.evalue)}`) };
  }
  const data = (output.data ?? {}) as Record<string, unknown>;
  const mimes = Object.keys(data).sort();
  const shown = TEXTS.find((mime) => mime in data);
  return {
    type,
    mimes,
    size: mimes.reduce((sum, mime) => sum + bytes(asText(data[mime])), 0),
    text: shown === undefined ? "" : head(joined(data[shown])),
  };
}

/** nbformat writes long texts as lists of lines. */
export function joined(value: unknown): string {
  return Array.isArray(value) ? value.join("") : typeof value === "string" ? value : "";
}

/** What a value of a bundle weighs as text. */
export function asText(value: unknown): string {
  const isText = typeof value === "string" || (Array.isArray(value) && value.every((line) => typeof line === "string"));
  return isText ? joined(value) : JSON.stringify(value);
}

/** Length in UTF-8. */
export function bytes(text: string): number {
  let size = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    // A surrogate is half of four bytes.
    size += unit < 0x80 ? 0 : unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 1 : 2;
  }
  return size;
}

export function head(text: string, limit = BRIEF_TEXT): string {
  return text.slice(0, splitsPair(text, limit) ? limit - 1 : limit);
}
