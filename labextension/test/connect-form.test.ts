import assert from "node:assert/strict";
import { test } from "node:test";

import { canList, firstModel, matchingModels, stateOf } from "../src/connect-form/choice";

const MISTRAL = { id: "mistral", label: "Mistral", api_base: "https://api.mistral.ai/v1", asks_key: true, key_from: "", key_page: "", state: "" } as const;
const OLLAMA = { ...MISTRAL, id: "ollama", api_base: "http://127.0.0.1:11434", asks_key: false, state: "found" } as const;
const OTHER = { ...MISTRAL, id: "other", api_base: "" } as const;
const MODELS = [{ name: "qwen3:8b", about: "" }, { name: "Qwen3-Coder:30b", about: "32,768 tokens" }];

test("a server is asked for its models as soon as it would answer", () => {
  const choice = { provider: MISTRAL, apiBase: MISTRAL.api_base, key: "", model: "" };
  assert.equal(canList(choice), false);
  assert.equal(canList({ ...choice, key: "sk-1" }), true);
  assert.equal(canList({ ...choice, provider: { ...MISTRAL, key_from: "the environment" } }), true);
  assert.equal(canList({ ...choice, provider: OLLAMA, apiBase: OLLAMA.api_base }), true);
  assert.equal(canList({ ...choice, provider: OTHER, apiBase: " " }), false);
  assert.equal(canList({ ...choice, provider: OTHER, apiBase: "http://10.0.0.7:8000/v1" }), true);
});

test("models are found by parts of their names, and a name that is not listed can be typed", () => {
  assert.deepEqual(matchingModels(MODELS, " coder qwen ").map(({ name }) => name), ["Qwen3-Coder:30b"]);
  assert.deepEqual(matchingModels(MODELS, ""), MODELS);
  assert.deepEqual(matchingModels(MODELS, "my-own"), [{ name: "my-own", about: "" }]);
  assert.deepEqual(matchingModels([], ""), []);
});

test("the chosen model stays chosen where the server has it", () => {
  assert.equal(firstModel(MODELS, "Qwen3-Coder:30b"), "Qwen3-Coder:30b");
  assert.equal(firstModel(MODELS, "gone"), "qwen3:8b");
  assert.equal(firstModel([], "gone"), "");
});

test("a provider says what it takes to use it", () => {
  assert.deepEqual([MISTRAL, OLLAMA, OTHER].map(stateOf), ["API key", "found", "URL"]);
});
