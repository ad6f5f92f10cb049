import type { JSONObject } from "@lumino/coreutils";

import type { Code } from "./methods";

/** A request that cannot be met; the kernel turns it into words for the model. */
export class Failure extends Error {
  readonly code: Code;
  readonly data: JSONObject;

  constructor(code: Code, message: string, data: JSONObject = {}) {
    super(message);
    this.code = code;
    this.data = data;
  }
}
