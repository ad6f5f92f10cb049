import type { Notebook } from "@jupyterlab/notebook";

/** Change the notebook's cells, and leave the active cell and the focus where the person has them. */
export function undisturbed(notebook: Notebook, change: () => void): void {
  const active = notebook.activeCell?.model.id;
  const hadFocus = notebook.node.contains(document.activeElement);
  change();
  const place = notebook.widgets.findIndex((cell) => cell.model.id === active);
  if (place >= 0 && place !== notebook.activeCellIndex) {
    notebook.activeCellIndex = place;
  }
  // A moved cell is made anew, and the focus went with the old one.
  if (hadFocus && !notebook.node.contains(document.activeElement)) {
    notebook.activate();
  }
}
