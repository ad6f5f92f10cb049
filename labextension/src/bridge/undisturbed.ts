import type { Notebook } from "@jupyterlab/notebook";

const FRAMES = 10; // in which a notebook has drawn a change

/** Change the notebook's cells, and leave active cell, focus and what is in view where the person has them. */
export function undisturbed(notebook: Notebook, change: () => void): void {
  const active = notebook.activeCell?.model.id;
  const hadFocus = notebook.node.contains(document.activeElement);
  holdInView(notebook);
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

/** Where the browser does not do it: scroll as far as a change above pushes the cell that is looked at. */
function holdInView(notebook: Notebook): void {
  const scroller = notebook.outerNode;
  const anchor = inView(notebook, scroller);
  if (anchor === undefined) {
    return;
  }
  const { scrollTop } = scroller;
  const { top } = anchor.getBoundingClientRect();
  let frames = 0;
  const look = (): void => {
    const moved = anchor.getBoundingClientRect().top - top;
    // Where it scrolled already, the browser or the person did.
    if (!anchor.isConnected || scroller.scrollTop !== scrollTop) {
      return;
    }
    if (moved !== 0) {
      scroller.scrollTop += moved;
    } else if (++frames < FRAMES) {
      requestAnimationFrame(look);
    }
  };
  requestAnimationFrame(look);
}

/** The active cell, or the first that is seen. */
function inView(notebook: Notebook, scroller: HTMLElement): HTMLElement | undefined {
  const { top, bottom } = scroller.getBoundingClientRect();
  const isSeen = (node: HTMLElement): boolean => {
    const box = node.getBoundingClientRect();
    return node.isConnected && box.height > 0 && box.bottom > top && box.top < bottom;
  };
  const active = notebook.activeCell?.node;
  return active !== undefined && isSeen(active) ? active : notebook.widgets.find((cell) => isSeen(cell.node))?.node;
}
