import type { OfferedModel, OfferedProvider } from "../contract";

/** What was typed and chosen so far. */
export interface Choice {
  provider: OfferedProvider;
  apiBase: string;
  key: string;
  model: string;
}

/** Whether a server can be asked for its models: one that requires a key has one. */
export function canList({ provider, apiBase, key }: Choice): boolean {
  const isOther = provider.api_base === "";
  return apiBase.trim() !== "" && (isOther || !provider.asks_key || key.trim() !== "" || provider.key_from !== "");
}

/** Models whose names hold every word; a name that is no model of the list is one all the same, the last. */
export function matchingModels(models: readonly OfferedModel[], typed: string): OfferedModel[] {
  const name = typed.trim();
  const words = name.toLowerCase().split(/\s+/);
  const found = models.filter((model) => words.every((word) => model.name.toLowerCase().includes(word)));
  const isListed = name === "" || models.some((model) => model.name === name);
  return isListed || found.length > 0 ? found : [{ name, about: "" }];
}

/** The model to begin with: the one that was chosen, where the server has it, else the server's first. */
export function firstModel(models: readonly OfferedModel[], chosen: string): string {
  return models.some((model) => model.name === chosen) ? chosen : models[0]?.name ?? "";
}

/** What stands beside the name of a provider. */
export function stateOf({ state, api_base, asks_key }: OfferedProvider): string {
  return state !== "" ? state : api_base === "" ? "URL" : asks_key ? "API key" : "";
}
