// Made by scripts/contract_types.py from the types in Python: what kernel and page say to each other.

export const BRIDGE_REQUEST = "vibe_bridge";
export const BRIDGE_REPLY = "vibe_bridge_reply";
export const BRIDGE_EVENT = "vibe_bridge_event";
export const BRIEF_TEXT = 200;

export type CellKind = "code" | "markdown" | "raw";
export type CellEdit = SetSource | InsertCell | DeleteCells | MoveCells;
export type Command = Approve | Reject | Answer | Interrupt;
export type PartKind = "prose" | "tail" | "step" | "card" | "notice" | "error" | "foot";
export type FromPage = ViewLoaded | ViewAlive | ViewGone | ViewDecision;
export type ToPage = ViewSnapshot | ViewPatches | ViewOver;
export type FromForm = FormAlive | ModelsWanted | ConnectWanted | DemoWanted | FormCancelled;
export type ToForm = FormContents | ModelsListed | StepTested | ConnectEnded;
export type RefusalCode = "unknown_cell" | "stale_cell" | "read_only" | "not_finished" | "bad_request" | "closed";
export type PageEvent = "hello" | "run_done" | "edited";

/** What the kernel may ask of a notebook, and the answers it gets. */
export interface Methods {
  hello: { args: HelloArgs; result: NotebookPanel };
  cells: { args: Record<string, never>; result: CellListing };
  outputs: { args: OutputsArgs; result: OutputsResult };
  picture: { args: PictureArgs; result: PictureResult };
  edit: { args: EditArgs; result: EditResult };
  run: { args: RunArgs; result: RunResult };
  interrupt: { args: Record<string, never>; result: Record<string, never> };
  show: { args: ShowArgs; result: Record<string, never> };
  find: { args: FindArgs; result: FindResult };
  keep: { args: KeepArgs; result: KeepResult };
  held: { args: HeldArgs; result: HeldResult };
  remember: { args: RememberArgs; result: Record<string, never> };
}

export type Method = keyof Methods;

/** Give a cell another source. */
export interface SetSource {
  op: "set_source";
  cell: string;
  /** Hash of the source it must have now. */
  expected: string;
  source: string;
  /** For its metadata; null removes what stands there. */
  vibe: Record<string, unknown> | null;
}

/** Put in a new cell. */
export interface InsertCell {
  op: "insert";
  /** Made by the one who asks, so that the cell can be found again. */
  id: string;
  /** Id of the cell above it; null for the top. */
  after: string | null;
  kind: CellKind;
  source: string;
  /** For its metadata. */
  vibe: Record<string, unknown> | null;
}

/** Remove cells, in one step. */
export interface DeleteCells {
  op: "delete";
  cells: ExpectedCell[];
}

/** A cell and the source it must have now. */
export interface ExpectedCell {
  id: string;
  expected: string;
}

/** Put cells behind another one, in the given order. */
export interface MoveCells {
  op: "move";
  cells: string[];
  /** null for the top. */
  after: string | null;
}

/** Let the call run. */
export interface Approve {
  type: "approve";
  approval_id: string;
  /** How long the shown pattern is allowed; `project` counts as `session` where it was not offered. */
  remember: "once" | "session" | "project";
  /** The user's version of the argument that `Preview.edits` names; null when it was left as shown. */
  edited: string | null;
}

/** Do not run the call. */
export interface Reject {
  type: "reject";
  approval_id: string;
  /** The user's words to the model; may be empty. */
  message: string;
}

/** What the user says to questions. */
export interface Answer {
  type: "answer";
  question_id: string;
  /** One for each question, in order; null when the user wants to answer none. */
  answers: Answered[] | null;
}

/** The user's answer to one question: what they chose, and what they wrote. */
export interface Answered {
  question: string;
  /** Labels, in the order of the options. */
  selected: string[];
  /** Their own words; empty when they wrote none. */
  other: string;
}

/** End the run: answer every open call, keep what was said. */
export interface Interrupt {
  type: "interrupt";
}

/** Sent when a page has loaded the view and looks for the output to draw it over. */
export interface ViewLoaded {
  type: "loaded";
}

/** Sent when a page has drawn the view and needs its contents. */
export interface ViewAlive {
  type: "alive";
}

/** Sent when the user cleared the output under the view. */
export interface ViewGone {
  type: "gone";
}

/** A command from the user. */
export interface ViewDecision {
  type: "command";
  command: Command;
}

/** All parts of the view. */
export interface ViewSnapshot {
  type: "snapshot";
  parts: ViewPart[];
}

/** A block of the view. Parts have the order of the transcript; `foot` is always last. */
export interface ViewPart {
  /** Stable and unique within the run: `t3` for text, `s5` for a step, `foot`. */
  id: string;
  kind: PartKind;
  /** Safe HTML for the live view (our classes, no inline styles). For kind tail: the growing end of an answer. */
  html: string;
}

/** Changes since the previous message. */
export interface ViewPatches {
  type: "patches";
  seq: number;
  patches: ViewPatch[];
}

/**
 * A change to the view, as sent to the page.
 *
 * `{"id", "kind", "html", "before"}` adds or replaces a part, in front of the part `before` (default: the foot).
 * With `keep`, the HTML is appended to that many UTF-16 code units of the part's previous HTML. With `remove`, the
 * part is removed.
 */
export interface ViewPatch {
  id: string;
  kind?: PartKind;
  html?: string;
  keep?: number;
  before?: string;
  remove?: boolean;
}

/** End of the run. The static output replaces the view, and `words` describe how the run ended. */
export interface ViewOver {
  type: "over";
  words: string;
}

/** Sent when a page has drawn the form and needs its contents. */
export interface FormAlive {
  type: "alive";
}

/** Request for the models of a server. */
export interface ModelsWanted {
  type: "models";
  /** Sequence number, echoed in the response. */
  seq: number;
  provider: string;
  api_base: string;
  key: string;
}

/** Request to test and use the chosen settings. */
export interface ConnectWanted {
  type: "connect";
  provider: string;
  api_base: string;
  key: string;
  model: string;
  place: "keyring" | "file" | "session";
  /** Test only, save if the test passes, or save without testing. */
  then: "test" | "save" | "save_untested";
}

/** Request to use the demo model. */
export interface DemoWanted {
  type: "demo";
}

/** Sent when the user closes the form. */
export interface FormCancelled {
  type: "cancel";
}

/** Contents of the form. */
export interface FormContents {
  type: "form";
  /** Why the form is shown, or "" if the user asked for it. */
  reason: string;
  /** Whether the cell's prompt is sent once a model is connected. */
  runs_cell: boolean;
  /** Id of the provider selected initially. */
  chosen: string;
  providers: OfferedProvider[];
  places: OfferedPlace[];
}

/** A provider in the form's list. */
export interface OfferedProvider {
  id: string;
  label: string;
  api_base: string;
  asks_key: boolean;
  /** Where its key is already stored, or "". */
  key_from: string;
  key_page: string;
  state: "" | "found" | "not running" | "key found";
}

/** A location for storing a key. */
export interface OfferedPlace {
  id: "keyring" | "file" | "session";
  label: string;
}

/** Models of a server, or the error from listing them. */
export interface ModelsListed {
  type: "models";
  seq: number;
  models: OfferedModel[];
  error: string;
}

/** A model offered by the server. */
export interface OfferedModel {
  name: string;
  about: string;
}

/** Result of one check of the connection test. */
export interface StepTested {
  type: "tested";
  name: string;
  state: "passed" | "failed" | "skipped";
  detail: string;
  seconds: number | null;
}

/** End of the test, or an error. */
export interface ConnectEnded {
  type: "ended";
  ok: boolean;
  /** Message shown above the buttons. */
  error?: string;
}

export interface HelloArgs {
  /** Version of the kernel's package. */
  version?: string;
}

/** A view's description of itself. */
export interface NotebookPanel {
  client: string;
  panel: string;
  /** Path of the notebook on the server, also correct after a rename. */
  path: string;
  /** Version of the extension. */
  version: string;
  /** Such as `jupyterlab 4.6.6`. */
  front_end: string;
  visible: boolean;
  /** Whether this tab started the running cell. */
  ran: boolean;
  /** Conversation id in the notebook's metadata, or "". */
  conversation: string;
}

/** All cells, in order. */
export interface CellListing {
  path: string;
  /** Whether there are unsaved changes. */
  dirty: boolean;
  cells: ListedCell[];
}

/** A cell, as reported by its page. */
export interface ListedCell {
  id: string;
  kind: CellKind;
  source: string;
  execution_count: number | null;
  /** Running or queued. */
  running: boolean;
  edited_since_run: boolean;
  /** Whether it has the tag `raises-exception`. */
  may_raise: boolean;
  tags: string[];
  outputs: ListedOutput[];
  /** Our key in the cell's metadata; null if that isn't an object. */
  vibe: Record<string, unknown> | null;
}

/** An output without its data. */
export interface ListedOutput {
  type: string;
  mimes: string[];
  /** Bytes of the whole output. */
  size: number;
  /** Beginning of its text. */
  text: string;
}

export interface OutputsArgs {
  cell: string;
  index?: number | null;
  /** Characters of one text. */
  limit: number;
}

export interface OutputsResult {
  /** In nbformat. */
  outputs: Record<string, unknown>[];
}

export interface PictureArgs {
  cell: string;
  /** Index of the output. */
  index: number;
  /** Number of outputs in the cell, to detect that they have changed. */
  count: number;
  /** Maximum length of the longer side, in pixels. */
  side: number;
  /** Maximum length of the response, in characters. */
  limit: number;
}

export interface PictureResult {
  /** Base64 PNG; null if the page shows no chart there. */
  image: string | null;
}

export interface EditArgs {
  edits: CellEdit[];
}

/** State read back from the notebook. */
export interface EditResult {
  /** The cells that were written. */
  cells: WrittenCell[];
  /** Ids of all cells. */
  order: string[];
}

/** A cell after an edit. */
export interface WrittenCell {
  id: string;
  source: string;
}

export interface RunArgs {
  cell: string;
  code_hash: string;
}

export interface RunResult {
  started: true;
  /** Id of the execute request, by which the kernel recognizes it if it arrives late. */
  request: string;
}

export interface ShowArgs {
  cell: string;
  model_id: string;
  display_id?: string | null;
  /** Outputs of another cell that a newly loaded page missed. */
  inner?: InnerCell | null;
}

/** A cell that the agent is running in place, or has just run. */
export interface InnerCell {
  cell: string;
  /** Id of the execute request. */
  request: string;
  /** Execution count. */
  number: number;
  /** Outputs so far, as in their messages. */
  outputs: Record<string, unknown>[];
  is_over: boolean;
}

export interface FindArgs {
  model_id: string;
}

export interface FindResult {
  /** The cell that contains the live view, for servers that don't report which cell runs. */
  cell: string | null;
}

export interface KeepArgs {
  cell: string;
  model_id: string;
  /** A MIME bundle. */
  data?: Record<string, unknown> | null;
  /** Metadata of the output. */
  metadata?: Record<string, unknown>;
  /** Execution count of the cell. */
  number?: number | null;
  /** Whether to append the data to the cell's outputs if the view isn't in the cell. */
  adds?: boolean;
}

export interface KeepResult {
  /** Whether the live view is still in the cell. */
  stands: boolean;
}

export interface HeldArgs {
  cell: string;
}

/** Outputs that the cell lost when it was run. */
export interface HeldResult {
  /** Outputs of an agent run, in nbformat. */
  outputs: Record<string, unknown>[];
}

export interface RememberArgs {
  /** Id for the notebook's metadata, which stores nothing else of the conversation. */
  conversation: string;
}

/** A request, as sent on iopub. */
export interface BridgeRequest {
  id: string;
  method: string;
  /** The recipient; null addresses every panel of this kernel. */
  to: ViewAddress | null;
  args: unknown;
}

/** A view of the notebook in a browser tab. */
export interface ViewAddress {
  /** Session id of the tab's connection to the kernel. */
  client: string;
  /** Name that is unique among the views of a tab. */
  panel: string;
}

/** Everything the panel shows. */
export interface PanelState {
  sessions: PanelSession[];
  /** Name of the next prompt's model, or "" without one. */
  model: string;
  models: PanelModel[];
  context: PanelContext | null;
  /** US dollars spent in the open conversation, or null without known prices. */
  cost: number | null;
  grants: PanelGrant[];
  servers: PanelServer[];
  stale: PanelCell[];
  /** Output or error of the command, or "" without a command. */
  said: string;
  failed: boolean;
}

/** A saved conversation. */
export interface PanelSession {
  /** The shortest unique prefix of its id. */
  id: string;
  title: string;
  /** Where it was held, and what it cost. */
  about: string;
  age: string;
  /** True if it belongs to this notebook. */
  here: boolean;
  /** True if it is the open one. */
  present: boolean;
}

/** A model that can be chosen. */
export interface PanelModel {
  name: string;
  /** Why it can't be used, or "". */
  problem: string;
}

/** Size of the next request. */
export interface PanelContext {
  tokens: number;
  window: number;
  parts: Record<string, number>;
}

/** A saved permission. */
export interface PanelGrant {
  /** As `%vibe permissions revoke` takes it. */
  pattern: string;
  scope: "session" | "project";
}

/** An MCP server. */
export interface PanelServer {
  name: string;
  state: string;
  /** The `%vibe mcp` command that resolves its problem, or "". */
  action: string;
  /** Its problem in one line, or "". */
  why: string;
}

/** A cell whose output is stale because cells above it have changed. */
export interface PanelCell {
  id: string;
  /** Position in the notebook, from 1. */
  number: number;
  why: string;
}

/** Models on the server of the current model. */
export interface PanelModels {
  /** Names as `%vibe model` takes them. */
  models: string[];
  /** Why there are none, or "". */
  error: string;
}

/** Preview of undoing a run. */
export interface PanelUndo {
  /** Names of what would be restored. */
  restored: string[];
  /** Names of what has changed since the run: those changes would be lost. */
  changed_since: string[];
  /** What would remain as it is, each with the reason. */
  lost: string[];
  /** Why the run can't be undone, or "". */
  problem: string;
}
