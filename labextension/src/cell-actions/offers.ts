import { CodeCell, type Cell, type ICellModel } from "@jupyterlab/cells";
import { NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";
import { Signal } from "@lumino/signaling";

import { cellModels } from "../bridge/notebook";
import { changesOf } from "../changes/logs";
import { isPromptCell, lastNumbered } from "./cell-state";
import type { PromptRunner } from "./run-prompt";
import { UnderOutput, type Wanted } from "./under-output";

/** Keeps the lines below the outputs of one notebook up to date. */
export class Offers {
  readonly #panel: NotebookPanel;
  readonly #runner: PromptRunner;
  readonly #words: TranslationBundle;
  readonly #lines = new Map<ICellModel, UnderOutput>();
  #wanted: Wanted;
  #ranLast: ICellModel | null = null;
  #frame = 0;

  constructor(panel: NotebookPanel, runner: PromptRunner, words: TranslationBundle, wanted: Wanted) {
    this.#panel = panel;
    this.#runner = runner;
    this.#words = words;
    this.#wanted = wanted;
    NotebookActions.executionScheduled.connect(this.#onRun, this);
    NotebookActions.executed.connect(this.#schedule, this);
    changesOf(panel).changed.connect(this.#schedule, this);
    panel.disposed.connect(() => { this.#end(); }, this);
    void panel.context.ready.then(() => {
      if (!panel.isDisposed) {
        panel.content.model?.cells.changed.connect(this.#onCells, this);
        this.#onCells();
      }
    });
  }

  /** The user chose what to see. */
  want(wanted: Wanted): void {
    this.#wanted = wanted;
    this.#schedule();
  }

  #end(): void {
    cancelAnimationFrame(this.#frame);
    Signal.clearData(this);
  }

  #onRun(_: unknown, { notebook, cell }: { notebook: unknown; cell: Cell }): void {
    if (notebook === this.#panel.content && isPromptCell(cell.model)) {
      this.#ranLast = cell.model;
    }
    this.#schedule();
  }

  #onCells(): void {
    for (const cell of this.#panel.content.widgets) {
      if (cell instanceof CodeCell && !this.#lines.has(cell.model)) {
        void cell.ready.then(() => { this.#add(cell); });
      }
    }
    this.#schedule();
  }

  #add(cell: CodeCell): void {
    const { model } = cell;
    if (cell.isDisposed || this.#lines.has(model)) {
      return;
    }
    this.#lines.set(model, new UnderOutput(this.#panel, cell, this.#runner, this.#words));
    model.outputs.changed.connect(this.#schedule, this);
    model.stateChanged.connect(this.#schedule, this);
    model.contentChanged.connect(this.#schedule, this);
    cell.disposed.connect(() => { this.#lines.delete(model); }, this);
    this.#schedule();
  }

  #schedule(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => { this.#refresh(); });
  }

  #refresh(): void {
    if (this.#panel.isDisposed || this.#panel.content.model === null) {
      return;
    }
    const cells = cellModels(this.#panel);
    const isThere = this.#ranLast !== null && cells.includes(this.#ranLast);
    const newest = isThere ? this.#ranLast : lastNumbered(cells);
    for (const line of this.#lines.values()) {
      line.refresh(newest, this.#wanted);
    }
  }
}
