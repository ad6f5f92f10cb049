import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { bytes } from "../src/bridge/brief";
import { difference, hashOf } from "../src/bridge/source";

const TEXTS = ["", "a", "ab", "aab", "é", "x = 1\n", "x = 2\ny", "🐍", "🐙", "a🐍b", "a🐙b", "🐍🐍", "\0", "y".repeat(200), "中文"];

test("the hash of a source is the beginning of its SHA-256", () => {
  for (const text of TEXTS) {
    assert.equal(hashOf(text), createHash("sha256").update(text, "utf8").digest("hex").slice(0, 8));
  }
});

test("a difference turns one text into the other, and never cuts a character in two", () => {
  for (const from of TEXTS) {
    for (const to of TEXTS) {
      const { start, end, text } = difference(from, to);
      assert.equal(from.slice(0, start) + text + from.slice(end), to);
      assert.ok([text, from.slice(start, end)].every((part) => part.isWellFormed()), `${from} -> ${to}`);
    }
  }
});

test("a difference leaves what both texts begin and end with", () => {
  assert.deepEqual(difference("x = 1\ny = 2", "x = 10\ny = 2"), { start: 5, end: 5, text: "0" });
});

test("the size of a text is that of its UTF-8", () => {
  for (const text of TEXTS) {
    assert.equal(bytes(text), Buffer.byteLength(text, "utf8"));
  }
});
