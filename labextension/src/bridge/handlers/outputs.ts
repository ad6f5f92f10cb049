import type { IOutput } from "@jupyterlab/nbformat";

import { asText, bytes, head, joined } from "../brief";
import { Failure } from "../failure";
import type { Handler } from "../handler";
import { cellModel, isCode } from "../notebook";
import { splitsPair } from "../source";

export const outputs: Handler<"outputs"> = ({ panel }, { cell, index, limit }) => {
  const model = cellModel(panel, cell);
  const all = isCode(model) ? model.outputs.toJSON() : [];
  const wanted = index === undefined || index === null ? all : all.slice(index, index + 1);
  if (wanted.length === 0 && typeof index === "number") {
    throw new Failure("bad_request", `This cell has ${all.length} outputs, and none at ${index}.`);
  }
  return { outputs: wanted.map((output) => bounded(output, limit)) };
};

/** The same output with what is longer than the limit cut, or named where a part of it would mean nothing. */
function bounded(output: IOutput, limit: number): IOutput {
  if (output.output_type === "stream") {
    return { ...output, text: cut(joined(output.text), limit) };
  }
  if (output.output_type === "error") {
    const whole = (output.traceback as string[]).join("\n");
    return whole.length <= limit ? output : { ...output, traceback: cut(whole, limit).split("\n") };
  }
  return { ...output, data: boundedData(output.data as Record<string, unknown>, limit) } as IOutput;
}

function boundedData(data: Record<string, unknown>, limit: number): Record<string, unknown> {
  const kept: Record<string, unknown> = {};
  const left: string[] = [];
  for (const [mime, value] of Object.entries(data)) {
    const text = asText(value);
    if (text.length <= limit) {
      kept[mime] = value;
    } else if (mime.startsWith("text/")) {
      kept[mime] = cut(text, limit);
    } else {
      left.push(`[${mime} of ${bytes(text)} bytes left out]`);
    }
  }
  if (left.length > 0) {
    kept["text/plain"] = [joined(kept["text/plain"]), ...left].filter((line) => line !== "").join("\n");
  }
  return kept;
}

/** Head and tail of a text, with what is missing named between them. */
function cut(text: string, limit: number): string {
  if (text.length <= limit) {
    return text;
  }
  const half = Math.floor(limit / 2);
  const first = head(text, half);
  const from = text.length - half;
  const last = text.slice(splitsPair(text, from) ? from + 1 : from);
  return `${first}\n[${text.length - first.length - last.length} characters left out]\n${last}`;
}
