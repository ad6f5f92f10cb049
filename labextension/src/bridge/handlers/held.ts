import type { Handler } from "../handler";
import { heldOutputs } from "../held-outputs";
import { cellModel } from "../notebook";

/** The outputs that a running cell had before it ran, so that an unchanged prompt can show its answer again. */
export const held: Handler<"held"> = ({ panel }, { cell }) => ({ outputs: heldOutputs(cellModel(panel, cell)) });
