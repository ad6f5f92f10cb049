/** What kernel and page say to each other. The Python half is `vibe_jupyter/ui/widget.py`. */

export type PartKind = "prose" | "tail" | "step" | "card" | "notice" | "error" | "foot";

/** One block of the view, as `vibe_jupyter/ui/page.py` makes it. */
export interface Part {
  id: string;
  kind: PartKind;
  /** Safe HTML with one root element; empty for a tail. */
  html: string;
  /** For a tail only: plain text. */
  text: string;
}

/** One change of the view: puts (html), adds text (append) or takes away (remove). */
export interface Patch {
  id: string;
  kind?: PartKind;
  html?: string;
  append?: string;
  /** Part in front of which a new part goes; absent: in front of the foot. */
  before?: string;
  remove?: boolean;
}

export type FromKernel =
  | { type: "snapshot"; parts: Part[] }
  | { type: "patches"; seq: number; patches: Patch[] }
  /** The run has ended, with these words; the kept form takes the place of the view. */
  | { type: "over"; words: string };

/** As in `vibe_jupyter/protocol/events.py`. */
export interface Answered {
  question: string;
  selected: string[];
  other: string;
}

/** As in `vibe_jupyter/protocol/events.py`. */
export type Command =
  | { type: "approve"; approval_id: string; remember: "once" | "session" | "project"; edited: string | null }
  | { type: "reject"; approval_id: string; message: string }
  | { type: "answer"; question_id: string; answers: Answered[] | null }
  | { type: "interrupt" };

export type ToKernel = { type: "alive" } | { type: "command"; command: Command };
