import type { Notebook } from "@jupyterlab/notebook";

const FRAMES = 10; // in which a notebook has drawn a change

/** Change the notebook's cells, and leave active cell, focus and what is in view where the user has them. */
export function preserveViewState(notebook: Notebook, change: () => void): void {
  const active = notebook.activeCell?.model.id;
  const hadFocus = notebook.node.contains(document.activeElement);
  holdInView(notebook);
  withoutTrimming(notebook, () => {
    change();
    const place = notebook.widgets.findIndex((cell) => cell.model.id === active);
    if (place >= 0 && place !== notebook.activeCellIndex) {
      notebook.activeCellIndex = place;
    }
  });
  // A moved cell is made again, and the focus went with the old one.
  if (hadFocus && !notebook.node.contains(document.activeElement)) {
    notebook.activate();
  }
}

/**
 * Whenever the active cell gets another number, JupyterLab collapses the selections of all others: with 1,000 cells the
 * page stands still for seconds. Here the same cell stays active, so there is nothing to collapse.
 */
function withoutTrimming(notebook: Notebook, change: () => void): void {
  const own = notebook as unknown as { _trimSelections?: () => void };
  own._trimSelections = () => undefined;
  try {
    change();
  } finally {
    delete own._trimSelections; // what is left is the method of the class
  }
}

const held = new WeakMap<Notebook, { frames: number }>();

/**
 * Where the browser does not do it: scroll as far as a change above pushes the cell that is looked at. A notebook that
 * draws only the cells in view pushes it too far at first and back a frame later: each frame starts from the one before,
 * and a change that comes meanwhile holds the same place for longer.
 */
function holdInView(notebook: Notebook): void {
  const holding = held.get(notebook);
  if (holding !== undefined) {
    holding.frames = 0;
    return;
  }
  const scroller = notebook.outerNode;
  const anchor = inView(notebook, scroller);
  if (anchor === undefined) {
    return;
  }
  let { scrollTop } = scroller;
  let { top } = anchor.getBoundingClientRect();
  const moved = (): number => anchor.getBoundingClientRect().top - top;
  const speakAgain = hushed(notebook, () => anchor.isConnected && Math.abs(moved()) < 1);
  const settle = (): void => {
    if (anchor.isConnected && scroller.scrollTop !== scrollTop) {
      top += moved(); // The browser or the user scrolled: it stays where that put it.
    } else if (anchor.isConnected && moved() !== 0) {
      scroller.scrollTop += moved();
    }
    ({ scrollTop } = scroller);
  };
  const layout = new MutationObserver(settle); // heard before the frame is painted
  layout.observe(notebook.viewportNode, { attributes: true, childList: true });
  const hold = { frames: 0 };
  held.set(notebook, hold);
  const look = (): void => {
    settle();
    if (++hold.frames < FRAMES && anchor.isConnected) {
      requestAnimationFrame(look);
    } else {
      held.delete(notebook);
      layout.disconnect();
      speakAgain();
    }
  };
  requestAnimationFrame(look);
}

/**
 * Keep scroll events of the notebook to ourselves while what is seen stands still: each of them makes every editor of
 * the notebook measure itself, which takes seconds with 1,000 cells. A notebook that draws only the cells in view has
 * few editors, and needs the events.
 */
function hushed(notebook: Notebook, standsStill: () => boolean): () => void {
  const drawsAll = notebook.notebookConfig.windowingMode !== "full";
  const listen = (event: Event): void => {
    if (drawsAll && event.target === notebook.outerNode && standsStill()) {
      event.stopPropagation();
    }
  };
  window.addEventListener("scroll", listen, true);
  return () => {
    window.removeEventListener("scroll", listen, true);
  };
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
