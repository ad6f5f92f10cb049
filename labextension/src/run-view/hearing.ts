import type { AnyModel } from "@anywidget/types";

/** The parts of an ipywidgets model that anywidget hides. */
interface HostModel {
  comm?: { on_msg: (receive: (message: unknown) => Promise<void>) => void };
  _handle_comm_msg?: (message: unknown) => Promise<void>;
}

const NOTHING = { content: { data: { method: "" } } };

/**
 * Keep hearing the kernel in a busy page. anywidget (0.11.0) gives up a model whose script took two seconds to load and
 * drops every later message to it; those messages then go straight to the model.
 *
 * @param again asks the kernel for the messages that were dropped.
 */
export async function hearAnyway(model: AnyModel, again: () => void): Promise<void> {
  const host = await modelOf(model);
  if (host === null) {
    return; // not a front end of ipywidgets
  }
  try {
    await host._handle_comm_msg?.(NOTHING);
  } catch {
    const base = Object.getPrototypeOf(Object.getPrototypeOf(host)) as HostModel;
    host.comm?.on_msg(async (message) => { await base._handle_comm_msg?.call(host, message); });
    again();
  }
}

async function modelOf(model: AnyModel): Promise<HostModel | null> {
  try {
    return await model.widget_manager.get_model(model.get("view_id") as string) as unknown as HostModel;
  } catch {
    return null;
  }
}
