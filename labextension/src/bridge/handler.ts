import type { JupyterFrontEnd } from "@jupyterlab/application";
import type { INotebookCellExecutor, NotebookPanel } from "@jupyterlab/notebook";
import type { Kernel } from "@jupyterlab/services";

import type { Method, Methods, PageEvent } from "../contract";

/** Where a request is met: one view of one notebook. */
export interface Place {
  app: JupyterFrontEnd;
  panel: NotebookPanel;
  executor: INotebookCellExecutor;
  kernel: Kernel.IKernelConnection;
  /** Names this page's connection to the kernel. */
  client: string;
  /** Tell the kernel what happened later. */
  tell: (event: PageEvent, more: { id?: string; cell?: string }) => void;
}

/** The running cell that asks, and the request's id. */
export interface AskedBy {
  id: string;
  /** Session of the page the running cell was sent from; empty where the kernel does not say. */
  session: string;
  /** Message id of the running cell's request. */
  message: string;
}

export type Handler<M extends Method> = (
  place: Place,
  args: Methods[M]["args"],
  askedBy: AskedBy,
) => Methods[M]["result"] | Promise<Methods[M]["result"]>;
