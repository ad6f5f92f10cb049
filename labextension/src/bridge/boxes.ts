import type { CodeCell } from "@jupyterlab/cells";

const BOX = "jp-OutputArea-stdin-item";
const ANSWERED = "jp-OutputArea-stdin-hiding"; // JupyterLab takes it away in a moment

/** Take away the boxes of `input()` that nobody answered before the cell ended: what is typed there reaches nobody. */
export function dropDeadBoxes({ outputArea }: CodeCell): void {
  for (const item of [...outputArea.widgets]) {
    if (item.hasClass(BOX) && !item.hasClass(ANSWERED)) {
      item.dispose();
    }
  }
}
