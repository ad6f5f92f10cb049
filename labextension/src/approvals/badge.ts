import type { Title } from "@lumino/widgets";

const WAITING = "vibe-tab-waiting";

/** Give the icon of a tab a dot while a card waits behind it. */
export function badge(title: Title<unknown>, isWaiting: boolean): void {
  const others = title.className.split(" ").filter((name) => name !== "" && name !== WAITING); // JupyterLab has its own
  title.className = (isWaiting ? [...others, WAITING] : others).join(" ");
}
