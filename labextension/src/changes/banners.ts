import type { Cell } from "@jupyterlab/cells";
import { NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";
import { Signal } from "@lumino/signaling";
import type { PanelLayout } from "@lumino/widgets";

import { applyEdit } from "../bridge/apply-edit";
import { cellModels, isRunning, modelOf } from "../bridge/notebook";
import { preserveViewState } from "../bridge/view-state";
import { isPromptCell } from "../cell-actions/cell-state";
import { ChangeBanner } from "./banner";
import { showChangedLines } from "./changed-lines";
import { changesOf, REVIEW } from "./logs";

const ABOVE_INPUT = 1; // place in the cell, behind its header

/** Keeps a line over each cell of one notebook that the agent changed, from the end of its run to the next prompt. */
export class ChangeBanners {
  readonly #panel: NotebookPanel;
  readonly #words: TranslationBundle;
  readonly #banners = new Map<Cell, ChangeBanner>();
  #frame = 0;

  constructor(panel: NotebookPanel, words: TranslationBundle) {
    this.#panel = panel;
    this.#words = words;
    const log = changesOf(panel);
    log.changed.connect(this.#schedule, this);
    NotebookActions.executionScheduled.connect((_, { notebook, cell }) => {
      if (notebook === panel.content && isPromptCell(cell.model)) {
        log.clear();
      }
    }, this);
    NotebookActions.executed.connect(this.#schedule, this);
    panel.node.addEventListener(REVIEW, () => void this.#show(this.#inOrder()[0], 1));
    void panel.context.ready.then(() => {
      panel.content.model?.cells.changed.connect(this.#schedule, this);
      panel.content.model?.contentChanged.connect(this.#schedule, this);
    });
    panel.disposed.connect(() => {
      cancelAnimationFrame(this.#frame);
      Signal.clearData(this);
    }, this);
  }

  #schedule(): void {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => { this.#refresh(); });
  }

  #refresh(): void {
    const { content } = this.#panel;
    const log = changesOf(this.#panel);
    if (this.#panel.isDisposed || content.model === null || (log.isEmpty && this.#banners.size === 0)) {
      return;
    }
    for (const cell of content.widgets) {
      const change = log.get(cell.model.id);
      if (change !== undefined && cell.model.sharedModel.getSource() !== change.after) {
        log.forget(cell.model.id); // the user has gone on from there
      }
    }
    const changed = content.widgets.filter((cell) => log.get(cell.model.id) !== undefined);
    const gone = Array.from(this.#banners.keys()).filter((cell) => cell.isDisposed || !changed.includes(cell));
    const goesOn = cellModels(this.#panel).some(isRunning); // the agent may change more
    const fresh = goesOn ? [] : changed.filter((cell) => !this.#banners.has(cell));
    if (gone.length > 0 || fresh.length > 0) {
      preserveViewState(content, () => {
        gone.forEach((cell) => { this.#remove(cell); });
        fresh.forEach((cell) => { this.#add(cell); });
      });
    }
    changed.forEach((cell, at) => {
      const change = log.get(cell.model.id);
      const banner = this.#banners.get(cell);
      if (change !== undefined && banner !== undefined) {
        banner.display(change, at + 1, changed.length);
        showChangedLines(cell, change.before ?? "", this.#words);
      }
    });
  }

  #add(cell: Cell): void {
    const banner = new ChangeBanner({
      keep: () => { this.#leave(cell, () => { changesOf(this.#panel).forget(cell.model.id); }); },
      undo: () => { this.#leave(cell, () => { this.#undo(cell); }); },
      go: (step) => void this.#go(cell, step),
    }, this.#words);
    this.#banners.set(cell, banner);
    (cell.layout as PanelLayout).insertWidget(ABOVE_INPUT, banner);
    showChangedLines(cell, changesOf(this.#panel).get(cell.model.id)?.before ?? "", this.#words);
    void cell.ready.then(() => { this.#schedule(); }); // it may have no editor yet
  }

  #remove(cell: Cell): void {
    if (!cell.isDisposed) {
      showChangedLines(cell, null, this.#words);
    }
    this.#banners.get(cell)?.dispose();
    this.#banners.delete(cell);
  }

  /** Decide on a cell, and leave the focus with the next one that waits, or with the notebook. */
  #leave(cell: Cell, decide: () => void): void {
    const next = this.#neighbour(cell, 1);
    decide();
    if (next === undefined || next === cell) {
      this.#panel.content.node.focus();
    } else {
      this.#banners.get(next)?.focusArrow(1);
    }
  }

  #undo(cell: Cell): void {
    const { id } = cell.model;
    const change = changesOf(this.#panel).get(id);
    if (change === undefined || modelOf(this.#panel).readOnly) {
      return;
    }
    changesOf(this.#panel).forget(id);
    const { before, mark } = change;
    preserveViewState(this.#panel.content, () => {
      applyEdit(modelOf(this.#panel), before === null
        ? { op: "delete", cells: [{ id, expected: "" }] }
        : { op: "set_source", cell: id, expected: "", source: before, vibe: mark });
    });
  }

  #go(from: Cell, step: 1 | -1): Promise<void> {
    return this.#show(this.#neighbour(from, step), step);
  }

  async #show(cell: Cell | undefined, step: 1 | -1): Promise<void> {
    if (cell !== undefined) {
      const { content } = this.#panel;
      content.activeCellIndex = content.widgets.indexOf(cell);
      await content.scrollToCell(cell);
      this.#banners.get(cell)?.focusArrow(step);
    }
  }

  #inOrder(): Cell[] {
    return this.#panel.content.widgets.filter((one) => this.#banners.has(one));
  }

  /** The changed cell behind this one, or before it; around the end the first again. */
  #neighbour(cell: Cell, step: 1 | -1): Cell | undefined {
    const order = this.#inOrder();
    return order[(order.indexOf(cell) + step + order.length) % order.length];
  }
}
