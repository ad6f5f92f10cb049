import type { ICellModel } from "@jupyterlab/cells";

import { Failure } from "./failure";
import type { CellEdit } from "../contract";
import { isRunning, unknownCell } from "./notebook";
import { hashOf } from "./source";

const CELL_ID = /^[a-zA-Z0-9_-]{1,64}$/; // nbformat's rule
const KINDS: readonly string[] = ["code", "markdown", "raw"];

/** Try edits on paper before any is made: they are done whole or not at all. */
export function validateEdits(models: readonly ICellModel[], edits: readonly CellEdit[]): void {
  const checks = new EditChecks(models);
  for (const one of edits) {
    checks.check(one);
  }
}

class EditChecks {
  readonly #models: ReadonlyMap<string, ICellModel>;
  /** The cells there would be after the edits so far. */
  readonly #ids: Set<string>;
  /** Sources they would have, where an edit gave one. */
  readonly #given = new Map<string, string>();

  constructor(models: readonly ICellModel[]) {
    this.#models = new Map(models.map((model) => [model.id, model]));
    this.#ids = new Set(this.#models.keys());
  }

  check(one: CellEdit): void {
    switch (one.op) {
      case "set_source":
        this.#unchanged(one.cell, one.expected);
        this.#allowed(one.cell, "editable");
        this.#given.set(one.cell, one.source);
        break;
      case "insert":
        this.#known(one.after);
        this.#free(one.id);
        if (!KINDS.includes(one.kind)) {
          throw new Failure("bad_request", `There is no kind of cell ${one.kind}.`);
        }
        this.#ids.add(one.id);
        this.#given.set(one.id, one.source);
        break;
      case "delete":
        for (const { id, expected } of one.cells) {
          this.#unchanged(id, expected);
          this.#allowed(id, "deletable");
          this.#atRest(id);
          this.#ids.delete(id);
        }
        break;
      case "move":
        this.#movable(one.cells, one.after);
        break;
      default:
        throw new Failure("bad_request", `There is no edit ${JSON.stringify((one as { op: unknown }).op)}.`);
    }
  }

  #movable(ids: readonly string[], after: string | null): void {
    this.#known(after);
    for (const id of ids) {
      this.#known(id);
      this.#atRest(id);
    }
    if (new Set(ids).size < ids.length || (after !== null && ids.includes(after))) {
      throw new Failure("bad_request", "A cell can be moved once, and not behind itself.");
    }
  }

  #known(id: string | null): void {
    if (id !== null && !this.#ids.has(id)) {
      throw unknownCell(id);
    }
  }

  #free(id: string): void {
    if (this.#ids.has(id) || !CELL_ID.test(id)) {
      throw new Failure("bad_request", `The id ${id} cannot be given to a new cell.`, { cell: id });
    }
  }

  #unchanged(id: string, expected: string): void {
    this.#known(id);
    const source = this.#given.get(id) ?? this.#models.get(id)?.sharedModel.getSource() ?? "";
    if (hashOf(source) !== expected) {
      throw new Failure("stale_cell", `The cell ${id} has changed.`, { cell: id, source });
    }
  }

  /** A cell's metadata may forbid what its page does not offer either. */
  #allowed(id: string, right: "editable" | "deletable"): void {
    if (this.#models.get(id)?.getMetadata(right) === false) {
      throw new Failure("read_only", `The cell ${id} is marked as not ${right}.`, { cell: id });
    }
  }

  /** The outputs of a running cell would go nowhere. */
  #atRest(id: string): void {
    const model = this.#models.get(id);
    if (model !== undefined && isRunning(model)) {
      throw new Failure("not_finished", `The cell ${id} is running.`, { cell: id });
    }
  }
}
