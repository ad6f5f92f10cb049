import type { ICellModel } from "@jupyterlab/cells";
import type { PartialJSONObject } from "@lumino/coreutils";

import type { InsertCell } from "../contract";

/** What a cell's metadata say of who wrote it; an older kernel says nothing of it. */
export type CellMark = InsertCell["vibe"] | undefined;

const KEY = "vibe";

/** The mark that stands there; null for none. */
export function markOf(cell: Pick<ICellModel["sharedModel"], "getMetadata">): InsertCell["vibe"] {
  const mark: unknown = cell.getMetadata(KEY);
  return typeof mark === "object" && mark !== null && !Array.isArray(mark) ? mark as Record<string, unknown> : null;
}

/** Give a cell a mark, or take it away. */
export function setMark(cell: ICellModel["sharedModel"], mark: CellMark): void {
  if (mark === null) {
    cell.deleteMetadata(KEY);
  } else if (mark !== undefined) {
    cell.setMetadata(KEY, mark as PartialJSONObject);
  }
}

/** The metadata of a new cell. */
export function metadataOf(mark: CellMark): PartialJSONObject {
  return mark === null || mark === undefined ? {} : { [KEY]: mark as PartialJSONObject };
}
