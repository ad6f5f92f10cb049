import type { ICellModel } from "@jupyterlab/cells";
import { Signal } from "@lumino/signaling";

import { markOf } from "../bridge/cell-mark";
import type { CellEdit, SetSource } from "../contract";
import { diffLines } from "./line-diff";

/** A cell as the agent left it, and as it was before. */
export interface CellChange {
  /** null for a cell that the agent put in. */
  before: string | null;
  /** What its metadata said then of who wrote it. */
  mark: CellEditMark;
  after: string;
}

type CellEditMark = SetSource["vibe"];

/** What is asked of a cell before it is changed. */
export type CellNow = Pick<ICellModel["sharedModel"], "getSource" | "getMetadata">;

/** Which cells the agent changed since the last prompt, and neither the user nor an undo has touched since. */
export class ChangeLog {
  readonly changed = new Signal<this, void>(this);
  readonly #changes = new Map<string, CellChange>();

  get isEmpty(): boolean {
    return this.#changes.size === 0;
  }

  get(cell: string): CellChange | undefined {
    return this.#changes.get(cell);
  }

  /**
   * The agent is about to make these edits.
   *
   * @param now a cell as it is.
   */
  note(edits: readonly CellEdit[], now: (cell: string) => CellNow | undefined): void {
    for (const one of edits) {
      if (one.op === "insert") {
        this.#changes.set(one.id, { before: null, mark: null, after: one.source });
      } else if (one.op === "set_source") {
        const known = this.#changes.get(one.cell);
        const { before, mark } = known ?? beforeEdit(now(one.cell));
        this.#changes.set(one.cell, { before, mark, after: one.source });
        if (before === one.source) {
          this.#changes.delete(one.cell); // as it was
        }
      } else if (one.op === "delete") {
        one.cells.forEach(({ id }) => this.#changes.delete(id));
      }
    }
    this.changed.emit();
  }

  /** Nothing is to be said of a cell any more: the user keeps it as it is, or has changed it. */
  forget(cell: string): void {
    if (this.#changes.delete(cell)) {
      this.changed.emit();
    }
  }

  /** The same for all cells. */
  clear(): void {
    this.#changes.clear();
    this.changed.emit();
  }
}

function beforeEdit(cell: CellNow | undefined): { before: string; mark: CellEditMark } {
  return { before: cell?.getSource() ?? "", mark: cell === undefined ? null : markOf(cell) };
}

/** How many lines were added and removed. */
export function lineCounts(before: string, after: string): { added: number; removed: number } {
  const { added, removed } = diffLines(before, after);
  return { added: added.length, removed: removed.reduce((sum, { lines }) => sum + lines.length, 0) };
}
