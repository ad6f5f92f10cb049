import type { Cell } from "@jupyterlab/cells";
import type { NotebookPanel } from "@jupyterlab/notebook";

/** Let the user go on writing behind what a cell holds. */
export async function editAtEnd({ content }: NotebookPanel, cell: Cell): Promise<void> {
  await cell.ready;
  // The palette gives the focus back to the notebook as the last thing it does.
  setTimeout(() => {
    content.mode = "edit";
    const { editor } = cell;
    const last = (editor?.lineCount ?? 1) - 1;
    editor?.focus();
    editor?.setCursorPosition({ line: last, column: editor.getLine(last)?.length ?? 0 });
  });
}
