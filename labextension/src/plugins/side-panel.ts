import { ILayoutRestorer, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { INotebookTracker } from "@jupyterlab/notebook";
import { ITranslator, nullTranslator } from "@jupyterlab/translation";
import type { Message } from "@lumino/messaging";
import { BoxLayout, Widget } from "@lumino/widgets";

import { badge } from "../approvals/badge";
import { waitingCards } from "../approvals/waiting";
import { vibeIcon } from "../cell-actions/icon";

const ID = "vibe-jupyter-side-panel";
const COMMAND = "vibe-jupyter:side-panel";

/** Conversations, model, context, permissions, MCP servers and stale cells of the notebook in front. */
export const sidePanel: JupyterFrontEndPlugin<void> = {
  id: "vibe-jupyter:side-panel",
  description: "Shows conversations, model, permissions and MCP servers beside the notebook.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ILayoutRestorer, ITranslator],
  activate: (
    app,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    translator: ITranslator | null,
  ) => {
    const words = (translator ?? nullTranslator).load("vibe_jupyter");
    const place = new Place(async () => {
      const { SidePanel } = await import("../side-panel/side-panel");
      return new SidePanel(app, tracker, words);
    });
    place.id = ID;
    place.title.icon = vibeIcon;
    place.title.caption = words.__("Vibe");
    app.shell.add(place, "right", { rank: 900, type: "Vibe" });
    restorer?.add(place, ID);
    document.addEventListener("vibe-cards", () => {
      const isWaiting = tracker.find((panel) => waitingCards(panel).length > 0) !== undefined;
      badge(place.title, isWaiting);
      place.title.caption = isWaiting ? words.__("Vibe needs your approval") : words.__("Vibe");
    });
    app.commands.addCommand(COMMAND, {
      label: words.__("Show Vibe Panel"),
      execute: () => { app.shell.activateById(ID); },
    });
    palette?.addItem({ command: COMMAND, category: "vibe-jupyter" });
  },
};

/** Where the panel stands. What it shows is loaded when it is first seen. */
class Place extends Widget {
  readonly #load: () => Promise<Widget>;
  #isLoaded = false;

  constructor(load: () => Promise<Widget>) {
    super();
    this.#load = load;
    this.layout = new BoxLayout();
    this.node.setAttribute("role", "region");
    this.node.setAttribute("aria-label", "Vibe");
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    if (!this.#isLoaded) {
      this.#isLoaded = true;
      void this.#load().then((panel) => { (this.layout as BoxLayout).addWidget(panel); });
    }
  }
}
