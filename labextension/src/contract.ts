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

/** A page has loaded the view, and looks for the output to draw it over. */
export interface ViewLoaded {
  type: "loaded";
}

/** A view was drawn and knows nothing yet. */
export interface ViewAlive {
  type: "alive";
}

/** The output that the view was drawn over is no more: the user cleared it. */
export interface ViewGone {
  type: "gone";
}

/** The user pressed something. */
export interface ViewDecision {
  type: "command";
  command: Command;
}

/** Everything that is shown now. */
export interface ViewSnapshot {
  type: "snapshot";
  parts: ViewPart[];
}

/** One block of the view. Order in the transcript is order on the page; `foot` is always the last. */
export interface ViewPart {
  /** Unique in its run and stable: `t3` for a piece of prose, `s5` for a step, `foot`. */
  id: string;
  kind: PartKind;
  /** Safe HTML for the live view (classes of ours, no inline style); of kind tail the end of an answer that grows. */
  html: string;
}

/** What changed since the message before. */
export interface ViewPatches {
  type: "patches";
  seq: number;
  patches: ViewPatch[];
}

/**
 * One change of the view, as sent to the page.
 *
 * `{"id", "kind", "html", "before"}` puts or replaces a part, `before` naming the part it goes in front of
 * (absent: in front of the foot); with `keep` the HTML goes behind so many UTF-16 units of what the part had.
 * `{"id", "remove": true}` removes.
 */
export interface ViewPatch {
  id: string;
  kind?: PartKind;
  html?: string;
  keep?: number;
  before?: string;
  remove?: boolean;
}

/** The run has ended, with these words; the kept form takes the place of the view. */
export interface ViewOver {
  type: "over";
  words: string;
}

/** A form was drawn and knows nothing yet. */
export interface FormAlive {
  type: "alive";
}

/** List the models of a server. */
export interface ModelsWanted {
  type: "models";
  /** Of the request; the answer has it too. */
  seq: number;
  provider: string;
  api_base: string;
  key: string;
}

/** Try what was chosen, and use it. */
export interface ConnectWanted {
  type: "connect";
  provider: string;
  api_base: string;
  key: string;
  model: string;
  place: "keyring" | "file" | "session";
  /** What follows: nothing, or saving where the test went well, or saving without a test. */
  then: "test" | "save" | "save_untested";
}

/** Use the demo model. */
export interface DemoWanted {
  type: "demo";
}

/** The user wants none of it. */
export interface FormCancelled {
  type: "cancel";
}

/** Everything the form offers. */
export interface FormContents {
  type: "form";
  /** Why it is shown; empty where the user asked for it. */
  reason: string;
  /** Whether the cell's prompt is sent once a model is connected. */
  runs_cell: boolean;
  /** Id of the provider to begin with. */
  chosen: string;
  providers: OfferedProvider[];
  places: OfferedPlace[];
}

/** One line of the list of providers. */
export interface OfferedProvider {
  id: string;
  label: string;
  api_base: string;
  asks_key: boolean;
  /** Where its key is kept already; empty where none is. */
  key_from: string;
  key_page: string;
  state: "" | "found" | "not running" | "key found";
}

/** A place for a key. */
export interface OfferedPlace {
  id: "keyring" | "file" | "session";
  label: string;
}

/** What a server lists, or why it does not. */
export interface ModelsListed {
  type: "models";
  seq: number;
  models: OfferedModel[];
  error: string;
}

/** A model of the server. */
export interface OfferedModel {
  name: string;
  about: string;
}

/** What came of one question of the test. */
export interface StepTested {
  type: "tested";
  name: string;
  state: "passed" | "failed" | "skipped";
  detail: string;
  seconds: number | null;
}

/** The test is over, or something went wrong. */
export interface ConnectEnded {
  type: "ended";
  ok: boolean;
  /** What is shown above the buttons. */
  error?: string;
}

export interface HelloArgs {
  /** Of the package in the kernel. */
  version?: string;
}

/** What a view said of itself. */
export interface NotebookPanel {
  client: string;
  panel: string;
  /** Of the notebook, as the server knows it; right also after a rename. */
  path: string;
  /** Of the extension. */
  version: string;
  /** Such as `jupyterlab 4.6.6`. */
  front_end: string;
  visible: boolean;
  /** Whether this tab started the running cell. */
  ran: boolean;
  /** Id of the conversation that the notebook's metadata names; empty for none. */
  conversation: string;
}

/** All cells, in their order. */
export interface CellListing {
  path: string;
  /** Whether anything was changed since it was saved. */
  dirty: boolean;
  cells: ListedCell[];
}

/** A cell, as its page has it. */
export interface ListedCell {
  id: string;
  kind: CellKind;
  source: string;
  execution_count: number | null;
  /** Running, or waiting for its turn. */
  running: boolean;
  edited_since_run: boolean;
  /** Whether it has the tag `raises-exception`. */
  may_raise: boolean;
  tags: string[];
  outputs: ListedOutput[];
  /** What its metadata have under this key; null where that is no object. */
  vibe: Record<string, unknown> | null;
}

/** An output without its weight. */
export interface ListedOutput {
  type: string;
  mimes: string[];
  /** Bytes of the whole output. */
  size: number;
  /** How its text begins. */
  text: string;
}

export interface OutputsArgs {
  cell: string;
  index?: number | null;
  /** Characters of one text. */
  limit: number;
}

export interface OutputsResult {
  /** As nbformat has them. */
  outputs: Record<string, unknown>[];
}

export interface PictureArgs {
  cell: string;
  /** Of the output. */
  index: number;
  /** Outputs of the cell, so that no other one is taken for it. */
  count: number;
  /** Pixels of the longer side, at most. */
  side: number;
  /** Characters of the answer, at most. */
  limit: number;
}

export interface PictureResult {
  /** PNG in base64; null where the page shows no chart there. */
  image: string | null;
}

export interface EditArgs {
  edits: CellEdit[];
}

/** Read back from the notebook. */
export interface EditResult {
  /** The cells written to. */
  cells: WrittenCell[];
  /** Ids of all cells. */
  order: string[];
}

/** A cell as it stands after an edit. */
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
  /** Id of the message that was sent, so that the kernel knows it when it comes too late. */
  request: string;
}

export interface ShowArgs {
  cell: string;
  model_id: string;
  display_id?: string | null;
  /** What a page that was loaded missed of another cell. */
  inner?: InnerCell | null;
}

/** A cell that the agent runs in its place, or has just run there. */
export interface InnerCell {
  cell: string;
  /** Id of the message that the kernel executes. */
  request: string;
  /** Execution count. */
  number: number;
  /** Until now, each as its message has it. */
  outputs: Record<string, unknown>[];
  is_over: boolean;
}

export interface FindArgs {
  model_id: string;
}

export interface FindResult {
  /** The cell that holds a live view, where the server does not say which cell runs. */
  cell: string | null;
}

export interface KeepArgs {
  cell: string;
  model_id: string;
  /** A MIME bundle. */
  data?: Record<string, unknown> | null;
  /** Of the output. */
  metadata?: Record<string, unknown>;
  /** Execution count of the cell. */
  number?: number | null;
  /** Whether the data is put below the other outputs where the view is not in the cell. */
  adds?: boolean;
}

export interface KeepResult {
  /** Whether the live view is still in the cell. */
  stands: boolean;
}

export interface HeldArgs {
  cell: string;
}

/** What the cell lost when it was run. */
export interface HeldResult {
  /** Those of a run of the agent, as nbformat has them. */
  outputs: Record<string, unknown>[];
}

export interface RememberArgs {
  /** Id for the notebook's metadata; nothing else of a conversation goes there. */
  conversation: string;
}

/** One request, as it comes on iopub. */
export interface BridgeRequest {
  id: string;
  method: string;
  /** The one panel that is asked; null asks every panel of this kernel. */
  to: ViewAddress | null;
  args: unknown;
}

/** One view of the notebook in one browser tab. */
export interface ViewAddress {
  /** The session of its connection to the kernel. */
  client: string;
  /** Its own name among the views of one tab. */
  panel: string;
}

/** Everything the panel shows. */
export interface PanelState {
  sessions: PanelSession[];
  /** What the model of the next prompt was chosen by; empty where there is none. */
  model: string;
  models: PanelModel[];
  context: PanelContext | null;
  /** US dollars of the open conversation; null where no price is known. */
  cost: number | null;
  grants: PanelGrant[];
  servers: PanelServer[];
  stale: PanelCell[];
  /** What the command printed, or why it failed; empty where none was given. */
  said: string;
  failed: boolean;
}

/** A saved conversation. */
export interface PanelSession {
  /** As short as it can be told from the others. */
  id: string;
  title: string;
  /** Where it was held, and what it cost. */
  about: string;
  age: string;
  /** Whether it belongs to this notebook. */
  here: boolean;
  /** Whether it is the open one. */
  present: boolean;
}

/** A model that can be chosen. */
export interface PanelModel {
  name: string;
  /** What it lacks; empty where it lacks nothing. */
  problem: string;
}

/** What the next request would carry. */
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
  /** The command behind `%vibe mcp` that helps it on; empty where none does. */
  action: string;
  /** What is wrong with it, in a line; empty where nothing is. */
  why: string;
}

/** A cell that no longer shows what the cells above it give. */
export interface PanelCell {
  id: string;
  /** Its place in the notebook, from 1. */
  number: number;
  why: string;
}

/** What the server of the current model offers. */
export interface PanelModels {
  /** As `%vibe model` takes them. */
  models: string[];
  /** Why there are none; empty where there are. */
  error: string;
}

/** What undoing a run would do now. */
export interface PanelUndo {
  /** What would be as before the run, by name. */
  restored: string[];
  /** What of it was changed after the run: those changes would be lost. */
  changed_since: string[];
  /** What would stay as it is, and why. */
  lost: string[];
  /** Why the run can't be undone; empty where it can. */
  problem: string;
}
