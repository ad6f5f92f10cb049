import type { NotebookPanel } from "@jupyterlab/notebook";

import { version } from "../../../package.json";
import type { Handler } from "../handler";
import { modelOf } from "../notebook";
import { METADATA_KEY } from "./remember";

export const hello: Handler<"hello"> = ({ app, panel, client }, _args, askedBy) => ({
  version,
  client,
  panel: panel.id,
  path: panel.context.path,
  visible: panel.isVisible && document.visibilityState === "visible",
  ran: askedBy.session === client,
  front_end: `${app.name === "JupyterLab" ? "jupyterlab" : "notebook"} ${app.version}`,
  conversation: conversationOf(panel),
});

/** Id of the conversation that the notebook's metadata names. */
function conversationOf(panel: NotebookPanel): string {
  const ours: unknown = panel.content.model === null ? undefined : modelOf(panel).getMetadata(METADATA_KEY);
  const id = (ours as { conversation?: unknown } | null | undefined)?.conversation;
  return typeof id === "string" ? id : "";
}
