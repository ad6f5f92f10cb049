import type { ICodeCellModel } from "@jupyterlab/cells";
import type { IMimeBundle, IOutput } from "@jupyterlab/nbformat";
import { KernelMessage, type Kernel } from "@jupyterlab/services";
import type { IDisposable } from "@lumino/disposable";

type Message = IOutput & { transient?: { display_id?: string } };

/**
 * A cell that was running when the page was reloaded: nobody listens to its messages any more, so we do, until it
 * ends.
 */
export class OutputRecovery implements IDisposable {
  readonly #kernel: Kernel.IKernelConnection;
  readonly #model: ICodeCellModel;
  readonly #request: string;
  readonly #number: number | null;
  readonly #displays = new Map<string, number>(); // places of outputs by display id
  #clearNext = false;
  #isDisposed = false;

  /**
   * @param request id of the message that the kernel executes.
   * @param number execution count that the cell gets; null where what it shows says so.
   */
  constructor(kernel: Kernel.IKernelConnection, model: ICodeCellModel, request: string, number: number | null = null) {
    this.#kernel = kernel;
    this.#model = model;
    this.#request = request;
    this.#number = number;
    // As when a cell is run by hand: what comes now was made by the user's own kernel.
    model.trusted = true;
    model.executionState = "running";
    kernel.iopubMessage.connect(this.#follow, this);
  }

  get isDisposed(): boolean {
    return this.#isDisposed;
  }

  /** Hear no more of the cell: it has ended, or its notebook was closed. */
  dispose(): void {
    this.#isDisposed = true;
    this.#kernel.iopubMessage.disconnect(this.#follow, this);
  }

  show(data: IMimeBundle, display: string | null): void {
    this.#add({ output_type: "display_data", data, metadata: {} }, display);
  }

  /** What the cell had put out before. */
  put(outputs: readonly Message[]): void {
    this.#model.outputs.clear();
    for (const { transient, ...output } of outputs) {
      this.#add(output, transient?.display_id ?? null);
    }
  }

  /** The cell has ended. */
  end(): void {
    this.dispose();
    this.#model.executionCount ??= this.#number;
    this.#model.executionState = "idle";
  }

  #follow(_: unknown, message: KernelMessage.IIOPubMessage): void {
    if (this.#model.isDisposed) {
      this.dispose();
      return;
    }
    if (KernelMessage.isUpdateDisplayDataMsg(message)) {
      this.#update(message); // whichever cell it comes from, such as one that the run is about to run
      return;
    }
    if ((message.parent_header as { msg_id?: string }).msg_id !== this.#request) {
      return;
    }
    if (KernelMessage.isStatusMsg(message)) {
      if (message.content.execution_state === "idle") {
        this.end();
      }
    } else if (KernelMessage.isClearOutputMsg(message)) {
      this.#clear(message.content.wait);
    } else if (KernelMessage.isStreamMsg(message) || KernelMessage.isErrorMsg(message)) {
      this.#add({ output_type: message.header.msg_type, ...message.content }, null);
    } else if (KernelMessage.isDisplayDataMsg(message) || KernelMessage.isExecuteResultMsg(message)) {
      const { transient, ...content } = message.content;
      this.#add({ output_type: message.header.msg_type, ...content }, transient?.display_id ?? null);
    }
  }

  #add(output: IOutput, display: string | null): void {
    if (this.#clearNext) {
      this.#clear(false);
    }
    const place = this.#model.outputs.add(output) - 1;
    if (typeof output.execution_count === "number") {
      this.#model.executionCount = output.execution_count;
    }
    if (display !== null) {
      this.#displays.set(display, place);
    }
  }

  #update({ content }: KernelMessage.IUpdateDisplayDataMsg): void {
    const place = this.#displays.get(content.transient.display_id);
    if (place !== undefined) {
      const { data, metadata } = content;
      this.#model.outputs.set(place, { output_type: "display_data", data, metadata });
    }
  }

  #clear(wait: boolean): void {
    this.#clearNext = wait;
    if (!wait) {
      this.#displays.clear();
      this.#model.outputs.clear();
    }
  }
}
