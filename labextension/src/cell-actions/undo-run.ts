import { Dialog, showDialog } from "@jupyterlab/apputils";
import type { NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";
import { undoIcon } from "@jupyterlab/ui-components";
import { Widget } from "@lumino/widgets";

import type { PanelUndo } from "../contract";
import { askState, askUndo } from "../side-panel/kernel";
import type { ChangedRun } from "./cell-state";
import { button, hint } from "./elements";

/** A button that undoes all that a run changed, and what became of it. It asks once, naming what would be lost. */
export function undoParts(panel: NotebookPanel, run: ChangedRun, words: TranslationBundle): HTMLElement[] {
  const said = hint("");
  said.classList.add("vibe-undo-said");
  said.setAttribute("role", "status");
  const undo = button(words.__("Undo all…"), () => {
    undo.disabled = true;
    void undoRun(panel, run, words).then(({ text, isDone }) => {
      said.textContent = text;
      undo.disabled = false;
      undo.hidden = isDone;
      if (isDone) {
        panel.content.node.focus();
      }
    });
  });
  undo.prepend(undoIcon.element({ tag: "span" }));
  return [undo, said];
}

async function undoRun(
  panel: NotebookPanel, run: ChangedRun, words: TranslationBundle,
): Promise<{ text: string; isDone: boolean }> {
  const plan = await askUndo(panel, run);
  if (plan === null) {
    return { text: words.__("Vibe is not loaded in this kernel: nothing was undone."), isDone: false };
  }
  if (plan.problem !== "") {
    return { text: plan.problem, isDone: false };
  }
  const { button: pressed } = await showDialog({
    title: words.__("Undo all changes of this run?"),
    body: planBody(plan, words),
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: words.__("Undo all") })],
    defaultButton: plan.changed_since.length > 0 ? 0 : 1, // Enter loses nothing
  });
  if (!pressed.accept) {
    return { text: "", isDone: false };
  }
  const state = await askState(panel, `undo ${String(run.run)} yes`);
  return { text: state?.said ?? words.__("The kernel did not answer."), isDone: state?.failed === false };
}

function planBody({ restored, changed_since: changed, lost }: PanelUndo, words: TranslationBundle): Widget {
  const body = new Widget();
  body.addClass("vibe-undo-plan");
  const list = document.createElement("dl");
  const add = (title: string, names: readonly string[]): void => {
    if (names.length > 0) {
      const term = document.createElement("dt");
      term.textContent = title;
      list.append(term, ...names.map((name) => {
        const item = document.createElement("dd");
        item.textContent = name;
        return item;
      }));
    }
  };
  add(words.__("Changed since the run; these changes would be lost"), changed);
  add(words.__("Will restore"), restored);
  add(words.__("Stays as it is"), lost);
  body.node.append(list);
  return body;
}
