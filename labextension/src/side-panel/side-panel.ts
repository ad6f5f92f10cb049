import type { JupyterFrontEnd } from "@jupyterlab/application";
import { type INotebookTracker, NotebookActions, type NotebookPanel } from "@jupyterlab/notebook";
import type { TranslationBundle } from "@jupyterlab/translation";
import { Signal } from "@lumino/signaling";
import { Widget } from "@lumino/widgets";

import { waitingCards } from "../approvals/waiting";
import { isPython } from "../cell-actions/cell-state";
import { insertBelow, loadMagic } from "../cell-actions/run-prompt";
import { editAtEnd } from "../cell-actions/write";
import type { PanelState } from "../contract";
import { button, key } from "../cell-actions/elements";
import { adoptStyles } from "../styles";
import { line, list, part, section } from "./elements";
import { FollowedKernel } from "./followed-kernel";
import { panelHead } from "./head";
import { askModels, askState } from "./kernel";
import { ModelPicker } from "./model-picker";
import {
  type Actions, contextSection, grantSection, serverSection, sessionSections, type Shown, staleSection,
} from "./sections";
import styles from "../../style/side-panel.css";

/** What the side panel holds: it asks the kernel of the notebook in front, draws the answer, and gives it commands. */
export class SidePanel extends Widget {
  readonly #app: JupyterFrontEnd;
  readonly #tracker: INotebookTracker;
  readonly #words: TranslationBundle;
  readonly #kernel: FollowedKernel;
  readonly #picker: ModelPicker;
  readonly #body = part("div", "vibe-panel-body");
  readonly #said = part("div", "vibe-panel-said");
  readonly #shown: Shown = { search: "", all: false };
  readonly #does: Actions = {
    give: (command) => void this.#ask(command),
    giveInCell: (command) => void this.#giveInCell(command),
    writeInCell: (command) => { this.#writeInCell(command); },
    goToCell: (id) => { this.#panel?.node.dispatchEvent(new CustomEvent("vibe-cell-wanted", { detail: id })); },
    runCells: (ids) => void this.#runCells(ids),
    showAll: () => {
      this.#shown.all = true;
      this.#draw();
    },
  };
  #state: PanelState | "not loaded" | null = null; // null before the first answer of this kernel
  #asks = false;
  #asksAgain = false;

  constructor(app: JupyterFrontEnd, tracker: INotebookTracker, words: TranslationBundle) {
    super();
    this.#app = app;
    this.#tracker = tracker;
    this.#words = words;
    this.#picker = new ModelPicker(words, this.#does, async () => {
      return this.#panel === null ? { models: [], error: "" } : askModels(this.#panel);
    });
    adoptStyles(styles);
    this.addClass("vibe-panel");
    this.#said.setAttribute("role", "status");
    const head = panelHead({
      begin: () => { this.#does.give("reset"); },
      openSettings: () => void app.commands.execute("vibe-jupyter:settings"),
      search: (text) => {
        this.#shown.search = text;
        this.#draw();
      },
    }, words);
    this.node.append(head, this.#said, this.#body);
    this.#kernel = new FollowedKernel(tracker, {
      changed: () => { this.#startAnew(); },
      rested: () => {
        this.#asksAgain = this.#asks;
        void (this.#asks ? null : this.#ask());
      },
      begun: () => { this.#draw(); },
    });
    document.addEventListener("vibe-cards", () => { this.#draw(); });
  }

  override dispose(): void {
    Signal.clearData(this);
    this.#kernel.dispose();
    super.dispose();
  }

  protected override onAfterAttach(): void {
    void this.#ask();
  }

  protected override onAfterShow(): void {
    void this.#ask();
  }

  get #panel(): NotebookPanel | null {
    return this.#tracker.currentWidget;
  }

  #startAnew(): void {
    this.#state = null;
    this.#shown.all = false;
    this.#picker.forget();
    this.#say("", false);
    this.#draw();
    void this.#ask();
  }

  async #ask(command = ""): Promise<void> {
    const panel = this.#panel;
    if (panel === null || !this.isVisible || !isPython(panel) || !this.#kernel.isAtRest) {
      this.#draw();
      return;
    }
    this.#asks = true;
    const state = await askState(panel, command).catch(() => null); // the kernel went
    this.#asks = false;
    if (panel !== this.#panel || this.isDisposed) {
      return;
    }
    this.#state = state ?? "not loaded";
    if (command !== "") {
      this.#say(state?.said ?? "", state?.failed ?? false);
    }
    this.#draw();
    if (this.#asksAgain) {
      this.#asksAgain = false;
      void this.#ask();
    }
  }

  #say(words: string, isError: boolean): void {
    const close = button(this.#words.__("Close"), () => { this.#say("", false); });
    this.#said.classList.toggle("vibe-panel-failed", isError);
    this.#said.replaceChildren(...(words === "" ? [] : [part("pre", "", words), close]));
  }

  #draw(): void {
    if (!this.isVisible) {
      return;
    }
    const focused = document.activeElement instanceof HTMLElement ? nameOf(document.activeElement) : "";
    const hadFocus = this.#body.contains(document.activeElement);
    this.#body.replaceChildren(...this.#waiting(), ...this.#sections());
    for (const one of this.node.querySelectorAll<HTMLButtonElement | HTMLSelectElement>("[data-kernel]")) {
      one.disabled = this.#state === null || this.#state === "not loaded" || !this.#kernel.isAtRest;
    }
    if (hadFocus) {
      const all = Array.from(this.#body.querySelectorAll<HTMLElement>("button, select"));
      (all.find((one) => nameOf(one) === focused) ?? all[0])?.focus();
    }
  }

  #sections(): HTMLElement[] {
    const words = this.#words;
    const note = (text: string, ...more: HTMLElement[]): HTMLElement[] => [part("p", "vibe-panel-note", text), ...more];
    if (this.#panel === null) {
      return note(words.__("Open a notebook to see its conversations."));
    }
    if (!isPython(this.#panel)) {
      return note(words.__("Vibe works in notebooks with a Python kernel."));
    }
    const state = this.#state;
    if (state === "not loaded") {
      return note(words.__("This kernel has not loaded Vibe yet."), button(words.__("Load Vibe"), () => void this.#load()));
    }
    if (state === null) {
      return note(this.#kernel.isAtRest ? words.__("Asking the kernel…") : words.__("Waiting for the kernel to be idle…"));
    }
    const busy = this.#kernel.isAtRest ? [] : note(words.__("Updates when the kernel is free"));
    return [
      ...busy,
      ...staleSection(state, this.#does, words),
      ...sessionSections(state, this.#shown, this.#does, words),
      this.#picker.draw(state),
      ...contextSection(state, this.#does, words),
      ...grantSection(state, this.#does, words),
      serverSection(state, this.#does, words),
    ];
  }

  /** The cards that wait, of all notebooks that are open. */
  #waiting(): HTMLElement[] {
    const words = this.#words;
    const lines: HTMLElement[] = [];
    this.#tracker.forEach((panel) => {
      for (const card of waitingCards(panel)) {
        const go = button(words.__("Go to it"), () => void this.#goToCard(panel));
        go.append(key("F8"));
        lines.push(line({ title: card.title, below: panel.title.label, dot: "waiting" }, go));
      }
    });
    return lines.length === 0 ? [] : [section(words.__("Waiting for you"), [], list(lines))];
  }

  async #goToCard(panel: NotebookPanel): Promise<void> {
    this.#app.shell.activateById(panel.id);
    await this.#app.commands.execute("vibe-jupyter:next-card");
  }

  async #load(): Promise<void> {
    if (this.#panel !== null && !(await loadMagic(this.#panel))) {
      this.#say(this.#words.__("Vibe is not installed for this kernel. Install it in the kernel's environment as you did for JupyterLab."), true);
    }
    await this.#ask();
  }

  #insert(source: string): ReturnType<typeof insertBelow> {
    const active = this.#panel?.content.activeCell ?? null;
    return this.#panel === null || active === null ? undefined : insertBelow(this.#panel, active, source);
  }

  async #giveInCell(command: string): Promise<void> {
    const cell = this.#insert(`%vibe ${command}`);
    if (this.#panel !== null && cell !== undefined) {
      const { content, sessionContext } = this.#panel;
      await content.scrollToCell(cell);
      await NotebookActions.runCells(content, [cell], sessionContext);
    }
  }

  #writeInCell(command: string): void {
    const cell = this.#insert(`%vibe ${command}`);
    if (this.#panel !== null && cell !== undefined) {
      this.#app.shell.activateById(this.#panel.id);
      void editAtEnd(this.#panel, cell);
    }
  }

  async #runCells(ids: readonly string[]): Promise<void> {
    if (this.#panel !== null) {
      const { content, sessionContext } = this.#panel;
      const cells = content.widgets.filter(({ model }) => ids.includes(model.id));
      await NotebookActions.runCells(content, cells, sessionContext);
    }
  }
}

function nameOf(element: HTMLElement): string {
  return element.getAttribute("aria-label") ?? element.textContent;
}
