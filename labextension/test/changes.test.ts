import assert from "node:assert/strict";
import { test } from "node:test";

import { ChangeLog, type CellNow, lineCounts } from "../src/changes/change-log";
import { diffLines } from "../src/changes/line-diff";

const MARK = { source: "12345678" };
const set = (cell: string, source: string) => ({ op: "set_source", cell, expected: "", source, vibe: MARK }) as const;
const now = (source: string, mark?: object) => () => ({ getSource: () => source, getMetadata: () => mark }) as unknown as CellNow;

test("a cell that is changed twice is undone to what it was before the run, with what its metadata said", () => {
  const log = new ChangeLog();
  const earlier = { source: "87654321" };
  log.note([set("a", "x = 2")], now("x = 1", earlier));
  log.note([set("a", "x = 3")], now("x = 2", MARK));
  assert.deepEqual(log.get("a"), { before: "x = 1", mark: earlier, after: "x = 3" });
});

test("what is put back, taken out or kept is no change any more", () => {
  const log = new ChangeLog();
  log.note([{ op: "insert", id: "new", after: null, kind: "code", source: "y", vibe: MARK }, set("a", "x = 2")], now("x = 1"));
  assert.deepEqual(log.get("new"), { before: null, mark: null, after: "y" });
  log.note([set("a", "x = 1"), { op: "delete", cells: [{ id: "new", expected: "" }] }], now("x = 2"));
  assert.deepEqual([log.get("a"), log.get("new")], [undefined, undefined]);
  log.note([set("b", "1")], now(""));
  log.forget("b");
  assert.equal(log.get("b"), undefined);
});

test("listeners hear of each change", () => {
  const log = new ChangeLog();
  let heard = 0;
  log.changed.connect(() => { heard++; });
  log.note([set("a", "1")], now(""));
  log.forget("a");
  log.forget("a");
  log.clear();
  assert.equal(heard, 3);
});

test("lines that stay are not counted", () => {
  assert.deepEqual(lineCounts("a\nb\nc\nd", "a\nx\nc\ny\nd"), { added: 2, removed: 1 });
  assert.deepEqual(lineCounts("a", "a"), { added: 0, removed: 0 });
  assert.deepEqual(lineCounts("", "a\nb"), { added: 2, removed: 0 });
});

test("lines that are gone stand in front of the line that follows them now", () => {
  assert.deepEqual(diffLines("a\nb\nc\nd", "a\nx\nc\ny\nd"), { added: [2, 4], removed: [{ before: 2, lines: ["b"] }] });
  assert.deepEqual(diffLines("a\nb\nc", "a"), { added: [], removed: [{ before: 2, lines: ["b", "c"] }] });
  assert.deepEqual(diffLines("a\n", ""), { added: [], removed: [{ before: 1, lines: ["a", ""] }] });
  assert.deepEqual(diffLines("", "a\nb"), { added: [1, 2], removed: [] });
});

test("texts too long to compare are shown as replaced", () => {
  const many = (letter: string): string => Array.from({ length: 2_100 }, (_, at) => `${letter}${String(at)}`).join("\n");
  const { added, removed } = diffLines(`same\n${many("a")}`, `same\n${many("b")}`);
  assert.deepEqual([added.length, removed.length, removed[0]?.lines.length], [2_100, 1, 2_100]);
});
