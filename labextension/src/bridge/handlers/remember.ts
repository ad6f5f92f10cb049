import type { Handler } from "../handler";
import { modelOf } from "../notebook";

/** Where our words stand in the notebook's metadata. */
export const METADATA_KEY = "vibe_jupyter";

/** Have the notebook name its conversation, so that it can be continued when it is opened again. */
export const remember: Handler<"remember"> = ({ panel }, { conversation }) => {
  modelOf(panel).setMetadata(METADATA_KEY, { conversation });
  return {};
};
