import type { FormContents, FromForm, ModelsListed, OfferedModel, OfferedProvider, ToForm } from "../contract";
import { canList, firstModel, matchingModels, stateOf, type Choice } from "./choice";
import { button, choices, field, make, stepLine } from "./elements";

const SHOWN = 200; // models in the list; typing finds the others

/** The form that connects a model: it shows what the kernel offers and says what the user chose. */
export class ConnectForm {
  readonly #root: HTMLElement;
  readonly #tell: (message: FromForm) => void;
  readonly #alert = make("p", { class: "vibe-form-error", role: "alert" });
  readonly #steps = make("ul", { class: "vibe-steps", "aria-live": "polite" });
  readonly #fields = make("div", { class: "vibe-fields" });
  readonly #key = make("input", { type: "password", autocomplete: "off", spellcheck: "false" });
  readonly #base = make("input", { type: "text", spellcheck: "false", placeholder: "https://llm.example.org/v1" });
  readonly #filter = make("input", { type: "search", spellcheck: "false" });
  readonly #list = make("div", { class: "vibe-models" });
  readonly #listed = make("p", { class: "vibe-hint", role: "status" });
  #contents: FormContents | null = null;
  #provider: OfferedProvider | null = null;
  #models: OfferedModel[] = [];
  #model = "";
  #place: FormContents["places"][number]["id"] = "file";
  #seq = 0;
  #isBusy = false;
  #mayKeepUntested = false;
  #primary: HTMLButtonElement | null = null;
  #test: HTMLButtonElement | null = null;

  constructor(root: HTMLElement, tell: (message: FromForm) => void) {
    this.#root = root;
    this.#tell = tell;
    root.addEventListener("keydown", (event) => { this.#press(event); });
    this.#key.addEventListener("change", () => { this.#changed(); });
    this.#key.addEventListener("paste", () => { setTimeout(() => { this.#changed(); }); });
    this.#key.addEventListener("input", () => { this.#showPlaces(); });
    this.#base.addEventListener("change", () => { this.#changed(); });
    this.#filter.addEventListener("input", () => { this.#narrow(); });
  }

  receive(message: ToForm): void {
    switch (message.type) {
      case "form":
        this.#contents = message;
        this.#place = message.places[0]?.id ?? "file";
        this.#draw(message);
        this.#choose(message.chosen);
        break;
      case "models":
        this.#showModels(message);
        break;
      case "tested":
        this.#steps.append(stepLine(message));
        break;
      case "ended":
        this.#setBusy(false);
        this.#mayKeepUntested = !message.ok && message.error === undefined;
        this.#fail(message.error ?? (message.ok ? "" : "It doesn't work yet. Nothing was saved."));
        this.#showPrimary();
        break;
    }
  }

  /** The first field that is to be filled in takes the focus; false where there is nothing yet. */
  focus(): boolean {
    const empty = [this.#key, this.#base].find((one) => one.isConnected && one.value === "");
    (empty ?? this.#primary)?.focus();
    return this.#primary !== null;
  }

  /** The kernel is gone: nobody hears what is pressed. */
  lose(): void {
    this.#root.querySelectorAll<HTMLInputElement | HTMLButtonElement>("input, button").forEach((one) => { one.disabled = true; });
    this.#fail("The kernel restarted. Run the cell again.");
  }

  #draw(contents: FormContents): void {
    const demo = button("Try without a model: demo", "vibe-link", () => { this.#tell({ type: "demo" }); });
    const why = contents.runs_cell ? "so that %%vibe can answer" : "";
    const header = make("div", { class: "vibe-form-head" }, make("b", {}, "Connect a model"), make("span", { class: "vibe-hint" }, why), demo);
    const providers = choices(
      "provider",
      contents.providers.map((one) => ({ id: one.id, label: one.label, about: stateOf(one) })),
      contents.chosen,
      (id) => { this.#choose(id); },
    );
    providers.setAttribute("aria-label", "Provider");
    providers.classList.add("vibe-providers");
    this.#primary = button("", "vibe-primary", () => { this.#connect(this.#mayKeepUntested ? "save_untested" : "save"); }, "⏎");
    this.#test = button("Test connection", "", () => { this.#connect("test"); });
    const cancel = button("Cancel", "vibe-quiet", () => { this.#tell({ type: "cancel" }); }, "Esc");
    const reason = contents.reason === "" ? [] : [make("p", { class: "vibe-reason" }, contents.reason.split("\n")[0] ?? "")];
    this.#root.replaceChildren(
      header,
      ...reason,
      make("div", { class: "vibe-columns" }, providers, this.#fields),
      this.#alert,
      make("div", { class: "vibe-form-foot" }, this.#primary, this.#test, make("span", { class: "vibe-spacer" }), cancel),
    );
    this.#fail("");
    this.#showPrimary();
  }

  #choose(id: string): void {
    const provider = this.#contents?.providers.find((one) => one.id === id);
    if (provider === undefined) {
      return;
    }
    this.#provider = provider;
    this.#key.value = "";
    this.#key.placeholder = provider.key_from === "" ? "" : `Uses ${provider.key_from}`;
    this.#base.value = provider.api_base;
    this.#filter.value = "";
    this.#model = "";
    this.#drawFields(provider);
    this.#changed();
  }

  #drawFields(provider: OfferedProvider): void {
    const eye = button("Show", "vibe-quiet vibe-eye", () => {
      this.#key.type = this.#key.type === "password" ? "text" : "password";
      eye.textContent = this.#key.type === "password" ? "Show" : "Hide";
    });
    const page = make("a", { href: provider.key_page, target: "_blank", rel: "noreferrer" }, provider.key_page.replace("https://", ""));
    const made = provider.key_page === "" ? [] : ["Create one at ", page, ". "];
    const optional = provider.api_base === "" ? "Leave it empty for a server without keys. " : "";
    const secret = make("p", { class: "vibe-hint" }, ...made, optional, "It is never written into the notebook.");
    const key = field("API key", this.#key, eye, secret);
    const models = field("Model", this.#filter, this.#list, this.#listed);
    this.#fields.replaceChildren(...(provider.asks_key ? [key] : []), field("Base URL", this.#base), models);
    this.#showPlaces();
    this.#fields.append(field("Test", this.#steps));
  }

  #showPlaces(): void {
    const there = this.#fields.querySelector(".vibe-places");
    if (this.#key.value === "" || this.#contents === null) {
      there?.remove();
    } else if (there === null) {
      const group = choices("place", this.#contents.places, this.#place, (id) => { this.#place = id; });
      const places = field("Keep key in", group);
      places.classList.add("vibe-places");
      this.#fields.lastElementChild?.before(places);
    }
  }

  get #choice(): Choice | null {
    const provider = this.#provider;
    return provider === null ? null : { provider, apiBase: this.#base.value, key: this.#key.value, model: this.#model };
  }

  /** Something is another server now: what was known of the one before counts no more. */
  #changed(): void {
    const choice = this.#choice;
    this.#fail("");
    this.#steps.replaceChildren();
    this.#mayKeepUntested = false;
    this.#models = [];
    this.#drawModels();
    this.#seq++;
    if (choice !== null && canList(choice)) {
      this.#listed.textContent = "Asking the server for its models…";
      const { provider, apiBase, key } = choice;
      this.#tell({ type: "models", seq: this.#seq, provider: provider.id, api_base: apiBase, key });
    } else {
      this.#listed.textContent = "";
    }
    this.#showPrimary();
  }

  #showModels({ seq, models, error }: ModelsListed): void {
    if (seq !== this.#seq) {
      return;
    }
    this.#models = models;
    this.#model = firstModel(models, this.#model);
    const none = "The server lists no models: type the name of one.";
    this.#listed.textContent = models.length > 0 ? "" : error === "" ? none : "";
    this.#fail(error);
    this.#drawModels();
  }

  #narrow(): void {
    this.#model = matchingModels(this.#models, this.#filter.value)[0]?.name ?? "";
    this.#mayKeepUntested = false;
    this.#showPrimary();
    this.#drawModels();
  }

  #drawModels(): void {
    const count = this.#models.length;
    this.#filter.placeholder = count > 1 ? `Filter ${String(count)} models from the server` : "Name of the model";
    const matching = matchingModels(this.#models, this.#filter.value).slice(0, SHOWN);
    const options = matching.map(({ name, about }) => ({ id: name, label: name, about }));
    const list = choices("model", options, this.#model, (name) => { this.#model = name; });
    list.setAttribute("aria-label", "Models");
    this.#list.replaceChildren(...(options.length > 0 ? [list] : []));
    list.querySelector("input:checked")?.scrollIntoView({ block: "nearest" });
  }

  #connect(then: "test" | "save" | "save_untested"): void {
    const choice = this.#choice;
    if (choice === null || this.#isBusy) {
      return;
    }
    this.#fail("");
    if (then !== "save_untested") {
      this.#steps.replaceChildren();
    }
    this.#setBusy(true);
    const { provider, apiBase, key, model } = choice;
    this.#tell({ type: "connect", provider: provider.id, api_base: apiBase, key, model, place: this.#place, then });
  }

  #setBusy(isBusy: boolean): void {
    this.#isBusy = isBusy;
    this.#root.toggleAttribute("aria-busy", isBusy);
    for (const one of [this.#primary, this.#test]) {
      one?.setAttribute("aria-disabled", String(isBusy));
    }
    if (this.#test !== null) {
      this.#test.textContent = isBusy ? "Testing…" : "Test connection";
    }
  }

  #showPrimary(): void {
    const label = this.#contents?.runs_cell === true ? "Save and run the cell" : "Save";
    this.#primary?.firstChild?.replaceWith(this.#mayKeepUntested ? `${label} anyway` : label);
  }

  #fail(words: string): void {
    this.#alert.textContent = words;
    this.#alert.hidden = words === "";
  }

  #press(event: KeyboardEvent): void {
    event.stopPropagation(); // nothing that is typed here is a shortcut of the page
    if (event.isComposing || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) {
      return;
    }
    const { target } = event;
    if (event.key === "Escape") {
      event.preventDefault();
      this.#tell({ type: "cancel" });
    } else if (event.key === "Enter" && target instanceof HTMLInputElement) {
      event.preventDefault();
      this.#connect("save");
    }
  }
}
