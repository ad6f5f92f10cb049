/** What JupyterLab and Notebook 7 load: the plugins of this extension. */
import { approvals } from "./plugins/approvals";
import { bridge } from "./plugins/bridge";
import { cellActions } from "./plugins/cell-actions";
import { changes } from "./plugins/changes";
import { commands } from "./plugins/commands";
import { fullEditor } from "./plugins/full-editor";
import { promptCells } from "./plugins/prompt-cells";
import { sidePanel } from "./plugins/side-panel";

export default [approvals, bridge, cellActions, changes, commands, fullEditor, promptCells, sidePanel];
