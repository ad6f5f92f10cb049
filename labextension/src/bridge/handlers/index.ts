import type { Handler } from "../handler";
import type { Method } from "../../contract";
import { cells } from "./cells";
import { edit } from "./edit";
import { find } from "./find";
import { held } from "./held";
import { hello } from "./hello";
import { interrupt } from "./interrupt";
import { keep } from "./keep";
import { outputs } from "./outputs";
import { picture } from "./picture";
import { remember } from "./remember";
import { run } from "./run";
import { show } from "./show";

/** One function a method; a missing one is a type error. */
export const handlers: { [M in Method]: Handler<M> } = {
  hello,
  cells,
  outputs,
  picture,
  edit,
  run,
  interrupt,
  show,
  find,
  keep,
  held,
  remember,
};
