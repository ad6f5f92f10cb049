import type { JSONObject } from "@lumino/coreutils";

import type { RefusalCode } from "../contract";

/** A request that cannot be met; the kernel turns it into words for the model. */
export class Failure extends Error {
  readonly code: RefusalCode;
  readonly data: JSONObject;

  constructor(code: RefusalCode, message: string, data: JSONObject = {}) {
    super(message);
    this.code = code;
    this.data = data;
  }
}
