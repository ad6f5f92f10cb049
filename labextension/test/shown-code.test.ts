import assert from "node:assert/strict";
import { test } from "node:test";

import { isAsItRan } from "../src/code-steps/shown-code";

test("code becomes a cell where it is shown as it ran, with nothing written out or left out", () => {
  for (const text of ["df.head()", "print('…')\n", "x = '⟨a⟩'", ""]) {
    assert.ok(isAsItRan(text), text);
  }
  for (const text of ["x = 1 # ⟨U+202E⟩", "y =⟨1,200 blanks⟩2", "a\n… 12,000 characters left out …\nb"]) {
    assert.ok(!isAsItRan(text), text);
  }
});
