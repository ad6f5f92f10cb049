import type { TranslationBundle } from "@jupyterlab/translation";
import { addIcon, searchIcon, settingsIcon } from "@jupyterlab/ui-components";

import { iconButton } from "../cell-actions/elements";
import { vibeIcon } from "../cell-actions/icon";
import { iconOf, order, part } from "./elements";

/** What stands above the sections: a new conversation, the settings, and the search for an old one. */
export function panelHead(
  does: { begin: () => void; openSettings: () => void; search: (text: string) => void }, words: TranslationBundle,
): HTMLElement {
  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = words.__("Search conversations");
  search.setAttribute("aria-label", search.placeholder);
  search.addEventListener("input", () => { does.search(search.value); });
  const begin = order(words.__("New"), does.begin, words.__("begin a new conversation"));
  begin.prepend(iconOf(addIcon));
  begin.classList.add("vibe-action-quiet");
  const settings = iconButton(settingsIcon, words.__("Settings of vibe-jupyter"), does.openSettings);
  const top = part("div", "vibe-panel-top", iconOf(vibeIcon), part("h2", "", "Vibe"), begin, settings);
  return part("div", "vibe-panel-head", top, part("div", "vibe-panel-search", iconOf(searchIcon), search));
}
