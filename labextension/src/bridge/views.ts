import type { ICellModel } from "@jupyterlab/cells";

import { isCode } from "./notebook";

export const VIEW = "application/vnd.jupyter.widget-view+json";

/** The outputs of a cell that show a widget: their places, and which widget. */
export function viewsOf(model: ICellModel): { place: number; id: string }[] {
  const outputs = isCode(model) ? model.outputs.toJSON() : [];
  return outputs.flatMap(({ data }, place) => {
    const view = (data as Record<string, unknown> | undefined)?.[VIEW] as { model_id?: string } | undefined;
    return view?.model_id === undefined ? [] : [{ place, id: view.model_id }];
  });
}
