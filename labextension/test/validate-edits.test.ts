import assert from "node:assert/strict";
import { test } from "node:test";

import type { ICellModel } from "@jupyterlab/cells";

import { Failure } from "../src/bridge/failure";
import { hashOf } from "../src/bridge/source";
import { validateEdits } from "../src/bridge/validate-edits";
import type { CellEdit, RefusalCode } from "../src/contract";

/** A cell of a notebook, as far as an edit looks at it. */
function cell(id: string, more: { running?: boolean; metadata?: Record<string, unknown> } = {}): ICellModel {
  return {
    id,
    type: "code",
    executionState: more.running === true ? "running" : "idle",
    sharedModel: { getSource: () => `source of ${id}` },
    getMetadata: (name: string) => more.metadata?.[name],
  } as unknown as ICellModel;
}

const cells = [cell("a"), cell("b"), cell("busy", { running: true }), cell("locked", { metadata: { editable: false, deletable: false } })];
const expected = (id: string): string => hashOf(`source of ${id}`);
const set = (id: string, hash = expected(id)): CellEdit => ({ op: "set_source", cell: id, expected: hash, source: "new" });
const insert = (id: string, after: string | null = null): CellEdit => ({ op: "insert", id, after, kind: "code", source: "fresh" });
const remove = (...ids: string[]): CellEdit => ({ op: "delete", cells: ids.map((id) => ({ id, expected: expected(id) })) });
const move = (ids: string[], after: string | null): CellEdit => ({ op: "move", cells: ids, after });

function refused(code: RefusalCode, ...edits: CellEdit[]): Failure {
  let found: unknown;
  assert.throws(() => { validateEdits(cells, edits); }, (error) => (found = error) instanceof Failure);
  assert.equal((found as Failure).code, code);
  return found as Failure;
}

test("edits that fit are let through, each on what those before it leave", () => {
  validateEdits(cells, [
    set("a"), set("a", hashOf("new")), insert("c", "a"), set("c", hashOf("fresh")), move(["c", "a"], "b"), remove("b"), insert("b"),
  ]);
});

test("a source that has changed is refused, with the source as it is now", () => {
  assert.deepEqual(refused("stale_cell", set("a", hashOf("older"))).data, { cell: "a", source: "source of a" });
  refused("stale_cell", set("a"), set("a"));
  refused("stale_cell", { op: "delete", cells: [{ id: "a", expected: hashOf("older") }] });
});

test("a cell that is not there, or no longer, is refused", () => {
  refused("unknown_cell", set("z"));
  refused("unknown_cell", insert("c", "z"));
  refused("unknown_cell", move(["z"], null));
  refused("unknown_cell", move(["a"], "z"));
  refused("unknown_cell", remove("a"), set("a"));
});

test("a running cell may be edited, but neither deleted nor moved", () => {
  validateEdits(cells, [set("busy")]);
  refused("not_finished", remove("busy"));
  refused("not_finished", move(["busy"], null));
});

test("what the notebook marks as not editable or not deletable stays", () => {
  refused("read_only", set("locked"));
  refused("read_only", remove("locked"));
});

test("a new cell gets an id that is free and valid, and a kind that there is", () => {
  refused("bad_request", insert("a"));
  refused("bad_request", insert("c"), insert("c"));
  refused("bad_request", insert("with space"));
  refused("bad_request", insert("x".repeat(65)));
  refused("bad_request", { ...insert("c"), kind: "heading" } as unknown as CellEdit);
});

test("a cell is moved once, and not behind itself", () => {
  refused("bad_request", move(["a", "a"], null));
  refused("bad_request", move(["a"], "a"));
});

test("an edit of another sort is refused", () => {
  refused("bad_request", { op: "merge" } as unknown as CellEdit);
});
