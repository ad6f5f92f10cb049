import type { TranslationBundle } from "@jupyterlab/translation";

import type { PanelModels, PanelState } from "../contract";
import { part, section } from "./elements";
import type { Actions } from "./sections";

const MORE = " more"; // no name of a model has a blank
const CONNECT = " connect";

/** Chooses the model of the next prompt: those of the settings, those of its server, or a new one. */
export class ModelPicker {
  readonly #words: TranslationBundle;
  readonly #does: Actions;
  readonly #listModels: () => Promise<PanelModels>;
  #listed: readonly string[] | null = null;

  constructor(words: TranslationBundle, does: Actions, listModels: () => Promise<PanelModels>) {
    this.#words = words;
    this.#does = does;
    this.#listModels = listModels;
  }

  /** Another notebook is in front. */
  forget(): void {
    this.#listed = null;
  }

  draw(state: PanelState): HTMLElement {
    const words = this.#words;
    const box = document.createElement("select");
    box.className = "vibe-panel-model";
    box.dataset.kernel = "";
    box.setAttribute("aria-label", words.__("Model"));
    if (state.model === "") {
      box.append(new Option(words.__("No model is connected"), "", true, true));
    }
    this.#fill(box, state);
    box.addEventListener("change", () => { this.#choose(box, state); });
    const problem = state.models.find(({ name }) => name === state.model)?.problem ?? "";
    return section(words.__("Model"), [], box, ...(problem === "" ? [] : [part("p", "vibe-panel-note", problem)]));
  }

  #fill(box: HTMLSelectElement, state: PanelState): void {
    const words = this.#words;
    for (const { name, problem } of state.models) {
      box.append(new Option(problem === "" ? name : `${name} — ${problem}`, name, false, name === state.model));
    }
    const known = new Set(state.models.map(({ name }) => name));
    const others = this.#listed?.filter((name) => !known.has(name)) ?? [];
    if (others.length > 0) {
      const group = document.createElement("optgroup");
      group.label = words.__("On its server");
      group.append(...others.map((name) => new Option(name, name)));
      box.append(group);
    } else if (this.#listed === null && state.model !== "") {
      box.append(new Option(words.__("More models of its server…"), MORE));
    }
    box.append(new Option(words.__("Connect another…"), CONNECT));
  }

  #choose(box: HTMLSelectElement, state: PanelState): void {
    const { value } = box;
    if (value === CONNECT) {
      box.value = state.model;
      this.#does.giveInCell("setup");
    } else if (value === MORE) {
      box.value = state.model;
      void this.#showMore(box, state);
    } else if (value !== "") {
      this.#does.give(`model ${value}`);
    }
  }

  async #showMore(box: HTMLSelectElement, state: PanelState): Promise<void> {
    const { models, error } = await this.#listModels();
    this.#listed = models;
    if (!box.isConnected) {
      return;
    }
    box.replaceChildren();
    this.#fill(box, state);
    if (error !== "") {
      box.after(part("p", "vibe-panel-note", error));
    }
    box.focus();
  }
}
