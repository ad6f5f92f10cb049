import { version } from "../../../package.json";
import type { Handler } from "../handler";

export const hello: Handler<"hello"> = ({ app, panel, client }, _args, askedBy) => ({
  version,
  client,
  panel: panel.id,
  path: panel.context.path,
  visible: panel.isVisible && document.visibilityState === "visible",
  ran: askedBy.session === client,
  front_end: `${app.name === "JupyterLab" ? "jupyterlab" : "notebook"} ${app.version}`,
});
