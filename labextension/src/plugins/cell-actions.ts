import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import { type Cell } from "@jupyterlab/cells";
import { INotebookTracker, type NotebookPanel } from "@jupyterlab/notebook";
import { ISettingRegistry } from "@jupyterlab/settingregistry";
import { ITranslator, nullTranslator, type TranslationBundle } from "@jupyterlab/translation";
import type { CommandRegistry } from "@lumino/commands";
import { Menu } from "@lumino/widgets";

import { CodeKeeper } from "../cell-actions/code-keeper";
import { errorOf, isPromptCell, isPython, numberOf } from "../cell-actions/cell-state";
import { EditLine } from "../cell-actions/edit-line";
import { vibeIcon } from "../cell-actions/icon";
import { Offers } from "../cell-actions/offers";
import { MAGIC, nameOf, promptFor, type Request } from "../cell-actions/prompts";
import { insertBelow, PromptRunner } from "../cell-actions/run-prompt";
import type { Wanted } from "../cell-actions/under-output";
import { editAtEnd } from "../cell-actions/write";
import { adoptStyles } from "../styles";
import styles from "../../style/cell-actions.css";

const CATEGORY = "vibe-jupyter";
const ID = "vibe-jupyter:cell-actions";
const REQUESTS: readonly Request[] = ["fix", "explain", "test", "document"];

/** The agent where the work is: on errors, on cells, and below the newest answer. */
export const cellActions: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: "Buttons below errors and answers, and entries in the menus of cells, that ask the agent.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ISettingRegistry, ITranslator],
  activate: (
    app,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    settings: ISettingRegistry | null,
    translator: ITranslator | null,
  ) => {
    const words = (translator ?? nullTranslator).load("vibe_jupyter");
    const runner = new PromptRunner(words);
    adoptStyles(styles);
    for (const command of addCommands(app, tracker, runner, words)) {
      palette?.addItem({ command, category: CATEGORY });
    }
    void showOffers(tracker, runner, words, settings);
  },
};

interface Place {
  panel: NotebookPanel;
  cell: Cell;
}

function addCommands(
  app: JupyterFrontEnd,
  tracker: INotebookTracker,
  runner: PromptRunner,
  words: TranslationBundle,
): string[] {
  const place = (): Place | null => {
    const panel = tracker.currentWidget;
    const cell = panel?.content.activeCell ?? null;
    return panel === null || cell === null ? null : { panel, cell };
  };
  const labels: Record<Request, string> = {
    fix: words.__("Fix with Vibe"),
    explain: words.__("Explain Cell"),
    test: words.__("Add Tests with Vibe"),
    document: words.__("Document Cell with Vibe"),
  };
  const add = (name: string, label: string, fits: (cell: Cell) => boolean, act: (place: Place) => unknown): string => {
    const isEnabled = (): boolean => {
      const here = place();
      return here !== null && isPython(here.panel) && !isPromptCell(here.cell.model) && fits(here.cell);
    };
    const command = `vibe-jupyter:${name}`;
    app.commands.addCommand(command, {
      label,
      isEnabled,
      isVisible: name === "fix" ? isEnabled : () => true,
      ...(name === "fix" ? { icon: vibeIcon } : {}),
      execute: () => {
        const here = place();
        return here === null ? undefined : act(here);
      },
    });
    return command;
  };
  const isCode = (cell: Cell): boolean => cell.model.type === "code";
  const failed = (cell: Cell): boolean => errorOf(cell.model) !== null;
  const asked = REQUESTS.map((request) =>
    add(request, labels[request], request === "fix" ? failed : isCode, ({ panel, cell }) =>
      runner.ask(panel, cell, promptFor(request, numberOf(cell.model)))),
  );
  const edit = add("edit-cell", words.__("Edit Cell with Vibe…"), () => true, ({ panel, cell }) => {
    EditLine.open(panel, cell, runner, words);
  });
  const about = add("ask-about-output", words.__("Ask Vibe About This Output…"), isCode, ({ panel, cell }) => {
    const prompt = insertBelow(panel, cell, `${MAGIC}\nAbout the output of ${nameOf(numberOf(cell.model))}: `);
    return prompt === undefined ? undefined : editAtEnd(panel, prompt);
  });
  const [fix = "", explain = "", ...more] = asked;
  const all = [fix, explain, edit, about, ...more];
  addMenu(app.commands, all, words);
  return all;
}

/** The mark in the toolbar of a cell opens all that can be asked about it. */
function addMenu(commands: CommandRegistry, entries: readonly string[], words: TranslationBundle): void {
  const menu = new Menu({ commands });
  entries.forEach((command) => menu.addItem({ command }));
  commands.addCommand("vibe-jupyter:cell-menu", {
    label: words.__("Ask Vibe about this cell"),
    icon: vibeIcon,
    execute: () => {
      const mark = document.querySelector(".jp-mod-active .jp-cell-toolbar [data-command='vibe-jupyter:cell-menu']");
      const { left, bottom } = (mark ?? document.body).getBoundingClientRect();
      menu.open(left, bottom);
    },
  });
}

async function showOffers(
  tracker: INotebookTracker,
  runner: PromptRunner,
  words: TranslationBundle,
  registry: ISettingRegistry | null,
): Promise<void> {
  const settings = await registry?.load(ID).catch(() => null);
  const wanted = (): Wanted => ({
    errors: settings?.get("errorButtons").composite !== false,
    followUp: settings?.get("followUpBox").composite !== false,
  });
  const all = new Set<Offers>();
  const add = (panel: NotebookPanel): void => {
    new CodeKeeper(panel);
    const offers = new Offers(panel, runner, words, wanted());
    all.add(offers);
    panel.disposed.connect(() => all.delete(offers));
  };
  tracker.forEach(add);
  tracker.widgetAdded.connect((_, panel) => { add(panel); });
  settings?.changed.connect(() => { all.forEach((offers) => { offers.want(wanted()); }); });
}
