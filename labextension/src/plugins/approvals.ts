import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { INotebookTracker, type NotebookPanel } from "@jupyterlab/notebook";
import { ITranslator, nullTranslator, type TranslationBundle } from "@jupyterlab/translation";

import { ApprovalGuide } from "../approvals/guide";
import { Notifier } from "../approvals/notifier";
import { waitingCards } from "../approvals/waiting";
import styles from "../../style/approvals.css";

const CATEGORY = "vibe-jupyter";
/** From a run view: its cards changed; a key asks for another card; a decision leaves the focus without a card. */
const EVENTS = { changed: "vibe-cards", go: "vibe-go-to-card", decided: "vibe-card-decided" };

/** The way to cards that wait: keys, a chip in the toolbar of the notebook, and notifications. */
export const approvals: JupyterFrontEndPlugin<void> = {
  id: "vibe-jupyter:approvals",
  description: "Goes to cards that wait for the user, and says so where they are not in sight.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ITranslator],
  activate: (app, tracker: INotebookTracker, palette: ICommandPalette | null, translator: ITranslator | null) => {
    const words = (translator ?? nullTranslator).load("vibe_jupyter");
    const guides = new Map<NotebookPanel, ApprovalGuide>();
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(styles);
    document.adoptedStyleSheets.push(sheet);
    tracker.widgetAdded.connect((_, panel) => {
      guides.set(panel, new ApprovalGuide(panel, words));
      panel.disposed.connect(() => { guides.delete(panel); });
      void panel.context.ready.then(() => {
        panel.content.model?.cells.changed.connect((_, { type }) => {
          if (type === "remove") {
            document.dispatchEvent(new CustomEvent(EVENTS.changed));
          }
        });
      });
    });
    for (const command of addCommands(app, tracker, guides, words)) {
      palette?.addItem({ command, category: CATEGORY });
    }
    listen(app, guides, new Notifier(words));
  },
};

function addCommands(
  app: JupyterFrontEnd,
  tracker: INotebookTracker,
  guides: ReadonlyMap<NotebookPanel, ApprovalGuide>,
  words: TranslationBundle,
): string[] {
  const add = (name: string, label: string, step: 1 | -1): string => {
    const command = `vibe-jupyter:${name}`;
    app.commands.addCommand(command, {
      label,
      isEnabled: () => tracker.currentWidget !== null && guides.get(tracker.currentWidget)?.waits === true,
      execute: () => {
        const panel = tracker.currentWidget;
        if (panel === null) {
          return false;
        }
        app.shell.activateById(panel.id); // the key works in every part of the page
        return guides.get(panel)?.go(step);
      },
    });
    return command;
  };
  app.commands.addCommand("vibe-jupyter:notify", {
    label: words.__("Turn on Vibe Notifications"),
    isEnabled: () => "Notification" in window && Notification.permission === "default",
    execute: () => Notification.requestPermission(),
  });
  return [
    add("next-card", words.__("Go to the Next Vibe Approval"), 1),
    add("previous-card", words.__("Go to the Previous Vibe Approval"), -1),
    "vibe-jupyter:notify",
  ];
}

function listen(app: JupyterFrontEnd, guides: ReadonlyMap<NotebookPanel, ApprovalGuide>, notifier: Notifier): void {
  const guideOf = (event: Event): ApprovalGuide | undefined => {
    const host = event.target instanceof Node ? event.target : null;
    return Array.from(guides).find(([panel]) => panel.node.contains(host))?.[1];
  };
  const refresh = (): void => {
    guides.forEach((guide) => { guide.refresh(); });
    app.commands.notifyCommandChanged("vibe-jupyter:next-card");
    app.commands.notifyCommandChanged("vibe-jupyter:previous-card");
    notifier.update(Array.from(guides, ([panel, guide]) => waitingCards(panel).map(({ id, title }) => ({
      id,
      title,
      place: panel.title.label,
      open: () => {
        app.shell.activateById(panel.id);
        void guide.go(1);
      },
    }))).flat());
  };
  document.addEventListener(EVENTS.changed, refresh);
  document.addEventListener("visibilitychange", refresh);
  document.addEventListener(EVENTS.go, (event) => {
    const guide = guideOf(event);
    if (guide !== undefined) {
      event.preventDefault();
      void guide.go((event as CustomEvent<1 | -1>).detail);
    }
  });
  document.addEventListener(EVENTS.decided, (event) => {
    if (guideOf(event)?.goOn((event as CustomEvent<boolean | null>).detail === true) === true) {
      event.preventDefault();
    }
  });
}
