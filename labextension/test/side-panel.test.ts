import { strictEqual } from "node:assert";
import { test } from "node:test";

import { thousands } from "../src/side-panel/elements";

test("tokens are told in as many digits as matter", () => {
  strictEqual([999, 1000, 18_040, 99_999, 128_000].map(thousands).join(" "), "999 1.0k 18.0k 100.0k 128k");
});
