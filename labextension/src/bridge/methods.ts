/**
 * What the kernel may ask of a notebook, and the answers it gets. The Python half is `vibe_jupyter/notebook/bridge.py`;
 * `vibe_jupyter/headless/` answers the same.
 */
import type { CellType, IMimeBundle, IOutput } from "@jupyterlab/nbformat";

/** An output without its weight. */
export interface OutputBrief {
  type: string;
  mimes: string[];
  /** Bytes of the whole output. */
  size: number;
  /** How its text begins. */
  text: string;
}

export interface CellBrief {
  id: string;
  kind: string;
  source: string;
  execution_count: number | null;
  /** Running, or waiting for its turn. */
  running: boolean;
  edited_since_run: boolean;
  outputs: OutputBrief[];
}

/** A cell and the hash of the source it must have now. */
export interface Expected {
  id: string;
  expected: string;
}

export type Edit =
  | { op: "set_source"; cell: string; expected: string; source: string }
  | { op: "insert"; id: string; after: string | null; kind: CellType; source: string }
  | { op: "delete"; cells: Expected[] }
  | { op: "move"; cells: string[]; after: string | null };

export interface Methods {
  hello: {
    args: { version?: string };
    result: {
      version: string;
      client: string;
      panel: string;
      path: string;
      visible: boolean;
      /** Whether the cell that asks was run from this page. */
      ran: boolean;
      front_end: string;
    };
  };
  cells: { args: object; result: { path: string; dirty: boolean; cells: CellBrief[] } };
  outputs: { args: { cell: string; index?: number | null; limit: number }; result: { outputs: IOutput[] } };
  edit: {
    args: { edits: Edit[] };
    /** Read back from the notebook: the cells written to, and the ids of all cells in their order. */
    result: { cells: { id: string; source: string }[]; order: string[] };
  };
  /** `request`: id of the message that was sent, so that the kernel knows it when it comes too late. */
  run: { args: { cell: string; code_hash: string }; result: { started: true; request: string } };
  interrupt: { args: object; result: object };
  show: { args: { model_id: string; cell: string; display_id?: string | null }; result: object };
  /** The cell that holds a live view, where the server does not say which cell runs. */
  find: { args: { model_id: string }; result: { cell: string | null } };
  keep: {
    args: { model_id: string; cell: string; data?: IMimeBundle | null; number?: number | null };
    result: { stands: boolean };
  };
}

export type Method = keyof Methods;

/** One request, as it comes on iopub. */
export interface Request {
  id: string;
  method: string;
  /** The one panel that is asked; null asks every panel of this kernel. */
  to: { client: string; panel: string } | null;
  args: unknown;
}

/** The ways a request fails. */
export type Code = "unknown_cell" | "stale_cell" | "read_only" | "not_finished" | "bad_request" | "closed";
