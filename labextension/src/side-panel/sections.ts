import type { TranslationBundle } from "@jupyterlab/translation";
import {
  buildIcon, editIcon, extensionIcon, folderIcon, type LabIcon, runIcon, terminalIcon,
} from "@jupyterlab/ui-components";

import type { PanelContext, PanelServer, PanelSession, PanelState } from "../contract";
import { line, link, list, order, part, section, thousands, type Line } from "./elements";

const FIRST = 5; // conversations of a group before "Show all"

/** What the buttons of the panel do. */
export interface Actions {
  /** Give a command of `%vibe`; what it says is shown in the panel. */
  give: (command: string) => void;
  /** The same in a cell of its own, where a card, a form or a run can be shown. */
  giveInCell: (command: string) => void;
  /** Put it into a new cell, to be completed. */
  writeInCell: (command: string) => void;
  goToCell: (id: string) => void;
  runCells: (ids: readonly string[]) => void;
  showAll: () => void;
}

/** What the user chose to see of the conversations. */
export interface Shown {
  search: string;
  all: boolean;
}

export function sessionSections(state: PanelState, shown: Shown, does: Actions, words: TranslationBundle): HTMLElement[] {
  const wanted = shown.search.trim().toLowerCase();
  const found = state.sessions.filter(({ title, about }) => `${title} ${about}`.toLowerCase().includes(wanted));
  const [here, elsewhere] = [found.filter((one) => one.here), found.filter((one) => !one.here)];
  const groups: [string, PanelSession[]][] = [
    [words.__("This notebook"), here], [words.__("Other conversations"), elsewhere],
  ];
  const drawn = groups.filter(([, members]) => members.length > 0).map(([title, members]) => {
    const first = shown.all || wanted !== "" ? members : members.slice(0, FIRST);
    const lines = first.map((one) => sessionLine(one, does, words));
    const more = members.length - first.length;
    return section(title, [], list(lines), ...(more === 0 ? [] : [
      link(words.__("Show all %1", members.length), does.showAll),
    ]));
  });
  const none = wanted === ""
    ? words.__("None yet. Write %1 into a cell, and a prompt below it.", "%%vibe")
    : words.__("No conversation matches.");
  return drawn.length > 0 ? drawn : [section(words.__("Conversations"), [], part("p", "vibe-panel-note", none))];
}

function sessionLine(one: PanelSession, does: Actions, words: TranslationBundle): HTMLElement {
  const about = one.present ? [words.__("Open"), one.about].filter(Boolean).join(" · ") : one.about;
  const said: Line = { title: one.title, below: about, dot: one.present ? "good" : "none", isPresent: one.present };
  const resume = order(words.__("Resume"), () => { does.give(`resume ${one.id}`); }, one.title);
  return line(said, part("span", "vibe-panel-aside", one.age), ...(one.present ? [] : [resume]));
}

export function contextSection(state: PanelState, does: Actions, words: TranslationBundle): HTMLElement[] {
  const { context, cost } = state;
  if (context === null) {
    return [];
  }
  const compact = order(words.__("Compact now"), () => { does.giveInCell("compact"); });
  const price = cost === null ? "" : words.__("$%1 in this conversation", cost.toFixed(3));
  const size = words.__("%1 of %2 tokens", thousands(context.tokens), thousands(context.window));
  return [section(
    words.__("Context"), [part("span", "vibe-panel-below", size)],
    meter(context, size), legend(context, words),
    part("div", "vibe-panel-row", compact, part("span", "vibe-panel-below", price)),
  )];
}

function meter({ window, parts }: PanelContext, label: string): HTMLElement {
  const bars = Object.entries(parts).map(([name, tokens]) => {
    const bar = part("span", `vibe-panel-part vibe-panel-${name}`);
    bar.style.width = `${(100 * tokens) / window}%`;
    return bar;
  });
  const made = part("div", "vibe-panel-meter", ...bars);
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", label);
  return made;
}

function legend({ parts }: PanelContext, words: TranslationBundle): HTMLElement {
  const names: Record<string, string> = {
    system: words.__("Instructions"), tools: words.__("Tools"), report: words.__("Notebook"),
    messages: words.__("Conversation"), results: words.__("Results"), images: words.__("Pictures"),
  };
  return part("ul", "vibe-panel-legend", ...Object.entries(parts).map(([name, tokens]) => part(
    "li", "", part("i", `vibe-panel-part vibe-panel-${name}`), names[name] ?? name,
    part("span", "vibe-panel-aside", thousands(tokens)),
  )));
}

export function grantSection({ grants }: PanelState, does: Actions, words: TranslationBundle): HTMLElement[] {
  const lines = grants.map(({ pattern, scope }) => line(
    {
      icon: iconOfGrant(pattern),
      title: part("code", "", pattern),
      below: scope === "session" ? words.__("until the kernel restarts") : words.__("in this project"),
    },
    order(words.__("Revoke"), () => { does.give(`permissions revoke ${pattern}`); }, pattern),
  ));
  const all = link(words.__("Revoke all"), () => { does.give("permissions revoke all"); });
  all.dataset.kernel = "";
  return lines.length === 0 ? [] : [section(words.__("Always allowed"), lines.length > 1 ? [all] : [], list(lines))];
}

const ICONS: readonly [RegExp, LabIcon][] = [
  [/^bash\b/, terminalIcon],
  [/^mcp__/, extensionIcon],
  [/^(?:run_|verify_)/, runIcon],
  [/^(?:read_|grep|inspect)/, folderIcon],
  [/^(?:edit_|insert_|delete_|move_|write_|search_replace)/, editIcon],
];

/** What kind of thing a permission lets happen. */
function iconOfGrant(pattern: string): LabIcon {
  return ICONS.find(([kind]) => kind.test(pattern))?.[1] ?? buildIcon;
}

export function serverSection({ servers }: PanelState, does: Actions, words: TranslationBundle): HTMLElement {
  const add = link(words.__("Add…"), () => { does.writeInCell("mcp add NAME COMMAND"); });
  const lines = servers.map((one) => line(
    { title: one.name, below: [one.state, one.why].filter(Boolean).join(": "), dot: dotOf(one) }, ...serverOrders(one, does, words),
  ));
  const none = part("p", "vibe-panel-note", words.__("No MCP servers yet"));
  return section(words.__("MCP servers"), [add], lines.length === 0 ? none : list(lines));
}

function dotOf({ state, action }: PanelServer): NonNullable<Line["dot"]> {
  return state === "failed" ? "bad" : state.startsWith("ready") ? "good" : action === "accept" ? "waiting" : "none";
}

function serverOrders({ name, state, action }: PanelServer, does: Actions, words: TranslationBundle): HTMLElement[] {
  const labels: Record<string, string> = {
    on: words.__("Turn on"), off: words.__("Turn off"), accept: words.__("Review…"),
    restart: state === "failed" ? words.__("Retry") : words.__("Start"),
  };
  const label = labels[action];
  const give = action === "accept" ? does.giveInCell : does.give; // it is asked on a card
  return label === undefined ? [] : [order(label, () => { give(`mcp ${action} ${name}`); }, name)];
}

export function staleSection({ stale }: PanelState, does: Actions, words: TranslationBundle): HTMLElement[] {
  if (stale.length === 0) {
    return [];
  }
  const run = order(words.__("Run them"), () => { does.runCells(stale.map(({ id }) => id)); }, words.__("stale cells"));
  const lines = stale.map(({ id, number, why }) => line({
    title: link(words.__("cell %1", number), () => { does.goToCell(id); }), below: why, dot: "waiting",
  }));
  return [section(words.__("Stale cells"), [run], list(lines))];
}
