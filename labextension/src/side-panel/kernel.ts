import type { NotebookPanel } from "@jupyterlab/notebook";
import type { JSONObject } from "@lumino/coreutils";

import type { PanelModels, PanelState, PanelUndo } from "../contract";
import type { ChangedRun } from "../cell-actions/cell-state";

const MAGIC = "get_ipython().magics_manager.registry['VibeMagics']";
/** As the requests of cells have it: so the kernel knows that a page is there to tell its cells. */
const OF_PAGE = { deletedCells: [] };
const JSON_TYPE = "application/json";

/** How everything stands, after a command of `%vibe`; null where the kernel has no `%vibe` yet. */
export async function askState(panel: NotebookPanel, command = ""): Promise<PanelState | null> {
  return await evaluate(panel, `${MAGIC}.panel(${JSON.stringify(command)})`) as PanelState | null;
}

/** The models that the server of the current model lists. */
export async function askModels(panel: NotebookPanel): Promise<PanelModels> {
  const listed = await evaluate(panel, `${MAGIC}.panel_models()`) as PanelModels | null;
  return listed ?? { models: [], error: "" };
}

/** What undoing a run would do now; null where the kernel has no `%vibe`. */
export async function askUndo(panel: NotebookPanel, { conversation, run }: ChangedRun): Promise<PanelUndo | null> {
  return await evaluate(panel, `${MAGIC}.panel_undo(${JSON.stringify(conversation)}, ${String(run)})`) as PanelUndo | null;
}

/** The value of an expression, in the kernel between two cells: it prints nothing and counts as no cell. */
async function evaluate(panel: NotebookPanel, expression: string): Promise<unknown> {
  const kernel = panel.sessionContext.session?.kernel;
  const request = {
    code: "", silent: true, store_history: false, allow_stdin: false, user_expressions: { answer: expression },
  };
  const reply = await kernel?.requestExecute(request, true, OF_PAGE).done;
  if (reply?.content.status !== "ok") {
    return null;
  }
  const answer = (reply.content.user_expressions as JSONObject | undefined)?.answer as
    { status: string; data?: JSONObject } | undefined;
  return answer?.status === "ok" ? answer.data?.[JSON_TYPE] ?? null : null;
}
