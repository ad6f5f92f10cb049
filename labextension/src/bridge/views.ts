import type { ICellModel } from "@jupyterlab/cells";

import { isCode } from "./notebook";

const MARK = /^<div data-vibe-view="([0-9a-f]+)"[ >]/;

/** What the page draws a live view over. */
export function markOf(id: string): string {
  return `<div data-vibe-view="${id}"></div>`;
}

/** The outputs of a cell that a live view belongs over: their places, and which view. */
export function viewsOf(model: ICellModel): { place: number; id: string }[] {
  const outputs = isCode(model) ? model.outputs.toJSON() : [];
  return outputs.flatMap(({ data }, place) => {
    const html: unknown = (data as Record<string, unknown> | undefined)?.["text/html"];
    const id = MARK.exec(Array.isArray(html) ? html.join("") : String(html))?.[1];
    return id === undefined ? [] : [{ place, id }];
  });
}
