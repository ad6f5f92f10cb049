import type { JupyterFrontEnd } from "@jupyterlab/application";
import type { ICellModel } from "@jupyterlab/cells";
import type { INotebookCellExecutor, NotebookPanel } from "@jupyterlab/notebook";
import { KernelMessage, type Kernel } from "@jupyterlab/services";
import type { JSONObject } from "@lumino/coreutils";
import type { IDisposable } from "@lumino/disposable";
import { Signal } from "@lumino/signaling";

import { Failure } from "./failure";
import type { Handler } from "./handler";
import { handlers } from "./handlers";
import { BRIDGE_EVENT, BRIDGE_REPLY, BRIDGE_REQUEST, type BridgeRequest, type Method, type PageEvent } from "../contract";
import { CellNumbers } from "./cell-numbers";
import { EditTeller } from "./edit-teller";
import { KeptLinks } from "./kept-links";
import { cellModels, modelOf } from "./notebook";
import { viewsOf } from "./views";

const GONE: ReadonlySet<Kernel.Status> = new Set(["restarting", "autorestarting", "terminating", "dead"]);
const INFO_WAIT = 1000; // ms in which a kernel at rest says who it is

/** Answers the kernel for one view of one notebook: asked on iopub, answered on the control channel. */
export class Connection implements IDisposable {
  readonly #app: JupyterFrontEnd;
  readonly #panel: NotebookPanel;
  readonly #executor: INotebookCellExecutor;
  readonly #end = new AbortController();
  #lost = 0; // kernels of this notebook that went, one of which may have asked

  constructor(app: JupyterFrontEnd, panel: NotebookPanel, executor: INotebookCellExecutor) {
    this.#app = app;
    this.#panel = panel;
    this.#executor = executor;
    const { sessionContext } = panel;
    sessionContext.iopubMessage.connect(this.#listen, this);
    sessionContext.kernelChanged.connect(this.#greet, this);
    sessionContext.statusChanged.connect(this.#mourn, this);
    // From a run view whose kernel is deaf. Taken, it need not name the front end's own button.
    panel.node.addEventListener("vibe-stop", (event) => {
      event.preventDefault();
      void this.#kernel?.interrupt();
    }, { signal: this.#end.signal });
    new CellNumbers(panel, this.#end.signal);
    new KeptLinks(panel, this.#end.signal);
    new EditTeller(panel, () => { this.#tell("edited"); }, this.#end.signal);
    panel.disposed.connect(() => { this.dispose(); }, this);
    void panel.context.ready.then(() => { this.#watchCells(); });
    this.#greet();
  }

  /** Read from its file again, a notebook has other cells: what was drawn in them is lost, as when the page is loaded. */
  #watchCells(): void {
    if (this.isDisposed) {
      return;
    }
    const known = new WeakSet(cellModels(this.#panel));
    modelOf(this.#panel).cells.changed.connect(() => {
      const cells = cellModels(this.#panel);
      const isOther = !cells.some((cell) => known.has(cell));
      cells.forEach((cell) => { known.add(cell); });
      if (isOther && this.#kernel?.status === "busy" && promptsIn(cells).length > 0) {
        this.#tell("hello");
      }
    }, this);
  }

  get isDisposed(): boolean {
    return this.#end.signal.aborted;
  }

  /** Answer nothing any more. */
  dispose(): void {
    this.#end.abort();
    Signal.clearData(this);
  }

  get #kernel(): Kernel.IKernelConnection | null {
    return this.#panel.sessionContext.session?.kernel ?? null;
  }

  /** Awaits nothing: JupyterLab holds back all further messages of the kernel until this returns. */
  #listen(_: unknown, message: KernelMessage.IMessage): void {
    const kernel = this.#kernel;
    if ((message.header.msg_type as string) !== BRIDGE_REQUEST || kernel === null) {
      return;
    }
    const request = message.content as unknown as BridgeRequest;
    const { to } = request;
    if (to === null || (to.client === kernel.clientId && to.panel === this.#panel.id)) {
      void this.#answer(kernel, request, message.parent_header);
    }
  }

  async #answer(
    kernel: Kernel.IKernelConnection,
    request: BridgeRequest,
    parent: { msg_id?: string; session?: string },
  ): Promise<void> {
    const { id } = request;
    const before = this.#lost;
    // Sent later, JupyterLab would keep it for the kernel that is started in the place of the one that asked.
    const say = (msgType: string, content: JSONObject): void => {
      if (this.#lost === before) {
        send(kernel, msgType, content);
      }
    };
    const from = { id, client: kernel.clientId, panel: this.#panel.id };
    const askedBy = { id, session: parent.session ?? "", message: parent.msg_id ?? "" };
    try {
      const handler = handlerOf(request.method);
      const place = {
        app: this.#app,
        panel: this.#panel,
        executor: this.#executor,
        kernel,
        client: kernel.clientId,
        tell: (event: PageEvent, more: JSONObject): void => {
          say(BRIDGE_EVENT, { ...from, event, ...more });
        },
      };
      const result = await handler(place, request.args as never, askedBy);
      say(BRIDGE_REPLY, { ...from, ok: true, result: result as JSONObject });
    } catch (reason) {
      const { code, message, data } = reason instanceof Failure ? reason : unforeseen(reason);
      say(BRIDGE_REPLY, { ...from, ok: false, error: { code, message, data } });
    }
  }

  /** Tell the views of a kernel that is gone: what they wait for will not come. */
  #mourn(_: unknown, status: Kernel.Status): void {
    if (GONE.has(status)) {
      this.#lost++;
      this.#panel.node.querySelectorAll(".vibe-run-host").forEach((view) => {
        view.dispatchEvent(new CustomEvent("vibe-lost", { detail: status }));
      });
    }
  }

  #tell(event: PageEvent): void {
    const kernel = this.#kernel;
    if (kernel !== null) {
      send(kernel, BRIDGE_EVENT, { client: kernel.clientId, panel: this.#panel.id, event });
    }
  }

  /** Say that this page is here, if a cell runs or a run ended unseen: its view was lost with the page before. */
  #greet(): void {
    const kernel = this.#kernel;
    if (kernel !== null) {
      void this.#panel.context.ready.then(async () => {
        // Other kernels complain of messages they do not know.
        const ours = promptsIn(cellModels(this.#panel));
        const missed = ours.some((cell) => viewsOf(cell).length > 0);
        if (ours.length > 0 && (missed || (await isBusy(kernel))) && !kernel.isDisposed && !this.isDisposed) {
          this.#tell("hello");
        }
      });
    }
  }
}

function promptsIn(cells: ICellModel[]): ICellModel[] {
  return cells.filter((cell) => cell.sharedModel.getSource().includes("vibe"));
}

/** A kernel that runs a cell does not say who it is until the cell ends. What the server says of it is not reliable. */
async function isBusy(kernel: Kernel.IKernelConnection): Promise<boolean> {
  if (kernel.connectionStatus !== "connected") {
    await new Promise<void>((resolve) => {
      const listen = (_: unknown, status: Kernel.ConnectionStatus): void => {
        if (status !== "connecting") {
          kernel.connectionStatusChanged.disconnect(listen);
          resolve();
        }
      };
      kernel.connectionStatusChanged.connect(listen);
    });
  }
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<true>((resolve) => {
    timer = setTimeout(resolve, INFO_WAIT, true);
  });
  return Promise.race([kernel.info.then(() => false), late]).finally(() => { clearTimeout(timer); });
}

function handlerOf(method: string): Handler<Method> {
  if (!Object.hasOwn(handlers, method)) {
    throw new Failure("bad_request", `This front end knows no request ${method}.`);
  }
  return handlers[method as Method] as Handler<Method>;
}

function unforeseen(reason: unknown): Failure {
  console.error("vibe-jupyter:", reason);
  return new Failure("bad_request", reason instanceof Error ? reason.message : String(reason));
}

function send(kernel: Kernel.IKernelConnection, msgType: string, content: JSONObject): void {
  if (kernel.isDisposed || kernel.status === "dead") {
    return;
  }
  const message = KernelMessage.createMessage<KernelMessage.IInfoRequestMsg>({
    channel: "control" as never,
    msgType: msgType as never,
    username: kernel.username,
    session: kernel.clientId,
    content: content as never,
  });
  kernel.sendControlMessage(message as never, false, true);
}
