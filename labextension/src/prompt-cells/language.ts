import type { CodeEditor } from "@jupyterlab/codeeditor";

import { isPrompt } from "../cell-actions/prompts";

const PROSE = "text/plain";

const followed = new WeakSet<CodeEditor.IModel>();

/** Keep the editor of a cell from colouring a prompt as code of the kernel's language. */
export function followLanguage(model: CodeEditor.IModel): void {
  if (followed.has(model)) {
    return;
  }
  followed.add(model);
  let code = model.mimeType;
  const choose = (): void => {
    if (model.mimeType !== PROSE) {
      code = model.mimeType; // the notebook sets it when it hears of its kernel
    }
    const wanted = isPrompt(model.sharedModel.getSource()) ? PROSE : code;
    if (model.mimeType !== wanted) {
      model.mimeType = wanted;
    }
  };
  model.mimeTypeChanged.connect(choose);
  model.sharedModel.changed.connect(choose);
  choose();
}
