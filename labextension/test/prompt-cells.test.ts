import assert from "node:assert/strict";
import { test } from "node:test";

import { mentionsIn } from "../src/prompt-cells/mentions";
import { freeName } from "../src/prompt-cells/pictures";

/** The mentions of a line, as text and kind. */
function found(line: string): string[] {
  return mentionsIn(line).map(({ from, to, kind }) => `${kind} ${line.slice(from, to)}`);
}

test("what a prompt names has its kind", () => {
  assert.deepEqual(found("Plot @df like @[7], with @data/raw.csv and (@\"my notes.txt\")."), [
    "variable @df", "cell @[7]", "file @data/raw.csv", "file @\"my notes.txt\"",
  ]);
  assert.deepEqual(found("Read @docs:file:///guide.md and @penguins.csv."), ["server @docs:file:///guide.md", "file @penguins.csv"]);
});

test("an address, a matrix product and a lone sign name nothing", () => {
  assert.deepEqual(found("mail me@home.org, a @ b, a@b, @ and @."), []);
});

test("a picture gets a name that is free, and that a mention can hold", () => {
  const png = (name: string) => ({ name, type: "image/png" });
  assert.equal(freeName(png("image.png"), new Set()), "pasted.png");
  assert.equal(freeName(png("image.png"), new Set(["pasted.png", "pasted-2.png"])), "pasted-3.png");
  assert.equal(freeName(png("Bildschirmfoto vom 3. Mai.png"), new Set()), "Bildschirmfoto-vom-3-Mai.png");
  assert.equal(freeName({ name: "@x;y.jpeg", type: "image/jpeg" }, new Set()), "x-y.jpg");
});
