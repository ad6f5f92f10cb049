import { type INotebookTracker, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel, KernelMessage } from "@jupyterlab/services";
import { Signal } from "@lumino/signaling";

/** What the side panel hears from the kernel of the notebook in front. */
interface Told {
  /** Another notebook is in front, or its kernel is another one. */
  changed: () => void;
  /** A cell runs. */
  begun: () => void;
  /** Cells ran, and the kernel rests. */
  rested: () => void;
}

const UNKNOWN = ""; // a cell that began before this was there

/**
 * Follows the kernel of the notebook in front. What is asked silently counts as nothing that runs. The kernel's status is
 * no answer while a run goes on: what it does for the page meanwhile ends in "idle", too.
 */
export class FollowedKernel {
  readonly #tracker: INotebookTracker;
  readonly #told: Told;
  #panel: NotebookPanel | null = null;
  #runs: string | null = null; // the request of the cell that runs

  constructor(tracker: INotebookTracker, told: Told) {
    this.#tracker = tracker;
    this.#told = told;
    NotebookActions.executed.connect((_, { notebook }) => {
      if (notebook === this.#panel?.content && this.isAtRest) {
        told.rested(); // only now the page knows that the cell is over
      }
    }, this);
    tracker.currentChanged.connect(() => {
      this.#follow();
      told.changed();
    }, this);
    this.#follow();
  }

  dispose(): void {
    Signal.clearData(this);
  }

  /** Whether there is a kernel that runs no cell. */
  get isAtRest(): boolean {
    return this.#kernel !== null && this.#runs === null;
  }

  get #kernel(): Kernel.IKernelConnection | null {
    return this.#panel?.sessionContext.session?.kernel ?? null;
  }

  #follow(): void {
    const before = this.#panel?.isDisposed === false ? this.#panel.sessionContext : null;
    before?.iopubMessage.disconnect(this.#onMessage, this);
    before?.statusChanged.disconnect(this.#onStatus, this);
    before?.kernelChanged.disconnect(this.#onKernel, this);
    this.#panel = this.#tracker.currentWidget;
    const now = this.#panel?.sessionContext;
    now?.iopubMessage.connect(this.#onMessage, this);
    now?.statusChanged.connect(this.#onStatus, this);
    now?.kernelChanged.connect(this.#onKernel, this);
    this.#runs = this.#kernel?.status === "idle" ? null : UNKNOWN;
  }

  #onKernel(): void {
    this.#runs = this.#kernel?.status === "idle" ? null : UNKNOWN;
    this.#told.changed();
  }

  #onMessage(_: unknown, { header, parent_header, content }: KernelMessage.IMessage): void {
    const request = "msg_id" in parent_header ? parent_header.msg_id : UNKNOWN;
    if (header.msg_type === "execute_input") { // a silent request gives none
      this.#runs = request;
      this.#told.begun();
    } else if (header.msg_type === "status" && request === this.#runs) {
      this.#end((content as KernelMessage.IStatusMsg["content"]).execution_state);
    }
  }

  #onStatus(_: unknown, status: Kernel.Status): void {
    if (status === "restarting" || status === "autorestarting") {
      this.#runs = UNKNOWN;
      this.#told.changed();
    } else if (this.#runs === UNKNOWN) {
      this.#end(status);
    }
  }

  #end(status: Kernel.Status): void {
    if (status === "idle") {
      this.#runs = null;
      this.#told.rested();
    }
  }
}
