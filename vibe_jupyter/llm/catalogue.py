"""Known defaults of common models: prices, context window, image support, and fields their servers require.

Prices change: these are as of `AS_OF`, and values set in ``[[models]]`` take precedence. A model is recognized only on
its maker's own server, since the same name elsewhere may cost something else, or nothing.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from vibe_jupyter.llm.request import ECHO_ALL, EchoTerms, Model

AS_OF: Final = "November 2026"  # compared with the price table of LiteLLM 1.109.1


class KnownModel(NamedTuple):
    """Catalogue entry of a model. Prices are in US dollars per million tokens."""

    input: float
    output: float
    cached: float  # for input tokens read from the server's cache
    window: int  # tokens
    images: bool = True


_CODESTRAL = KnownModel(0.3, 0.9, 0.03, 128_000, images=False)
_MISTRAL_MEDIUM = KnownModel(1.5, 7.5, 0.15, 262_144)
_MISTRAL_SMALL = KnownModel(0.15, 0.6, 0.015, 262_144)

# Defaults set in `config/providers.py` take precedence over this table.
KNOWN: Final[Mapping[str, Mapping[str, KnownModel]]] = {
    "api.mistral.ai": {
        "mistral-vibe-cli-latest": _MISTRAL_MEDIUM,
        "mistral-large-latest": KnownModel(0.5, 1.5, 0.05, 262_144),
        "mistral-medium-latest": _MISTRAL_MEDIUM,
        "mistral-small-latest": _MISTRAL_SMALL,
        "magistral-medium-latest": _MISTRAL_MEDIUM,
        "magistral-small-latest": _MISTRAL_SMALL,
        "devstral-latest": KnownModel(0.4, 2.0, 0.04, 256_000, images=False),
        "devstral-medium-latest": KnownModel(0.4, 2.0, 0.04, 256_000, images=False),
        "devstral-small-latest": KnownModel(0.1, 0.3, 0.01, 256_000, images=False),
        "codestral-latest": _CODESTRAL,
        "codestral-2508": _CODESTRAL,
        "ministral-14b-latest": KnownModel(0.2, 0.2, 0.02, 262_144),
        "ministral-8b-latest": KnownModel(0.15, 0.15, 0.015, 262_144),
        "ministral-3b-latest": KnownModel(0.1, 0.1, 0.01, 131_072),
    },
    "api.openai.com": {
        "gpt-4o": KnownModel(2.5, 10.0, 1.25, 128_000),
        "gpt-4o-mini": KnownModel(0.15, 0.6, 0.075, 128_000),
        "gpt-4.1": KnownModel(2.0, 8.0, 0.5, 1_047_576),
        "gpt-4.1-mini": KnownModel(0.4, 1.6, 0.1, 1_047_576),
        "gpt-4.1-nano": KnownModel(0.1, 0.4, 0.025, 1_047_576),
        "gpt-5": KnownModel(1.25, 10.0, 0.125, 272_000),
        "gpt-5-mini": KnownModel(0.25, 2.0, 0.025, 272_000),
        "gpt-5-nano": KnownModel(0.05, 0.4, 0.005, 272_000),
        "o3": KnownModel(2.0, 8.0, 0.5, 200_000),
        "o4-mini": KnownModel(1.1, 4.4, 0.275, 200_000),
    },
    "api.deepseek.com": {
        "deepseek-chat": KnownModel(0.28, 0.42, 0.028, 131_072, images=False),
    },
}


_THOUGHTS: Final = EchoTerms(wanted=frozenset({"reasoning_content"}))
# Fields that a server, identified by its host, requires in every answer of the history, even in answers of other
# models. Other servers' requirements are learned from their refusals.
ECHOES: Final[Mapping[str, EchoTerms]] = {
    "api.deepseek.com": _THOUGHTS,
    "api.moonshot.ai": _THOUGHTS,
    "api.moonshot.cn": _THOUGHTS,
    "generativelanguage.googleapis.com": EchoTerms(wanted=frozenset({"thought_signature"})),
}


def known_echoes(model: Model) -> EchoTerms:
    """Return the known echo rules of a model's server, or the default rules if thinking is off."""
    host = model.server.host.lower().removesuffix(":443")
    return ECHO_ALL if model.thinking == "off" else ECHOES.get(host, ECHO_ALL)


def known_model(host: str, name: str) -> KnownModel | None:
    """Look up a model by host and name, or None if it isn't in the catalogue."""
    return KNOWN.get(host.lower().removesuffix(":443"), {}).get(name)


def complete_model(model: Model, *, sees_images: bool | None) -> Model:
    """Fill in settings missing from a model with the catalogue's values.

    Args:
        model: The model as configured.
        sees_images: The configured image support, or None if it isn't set.
    """
    found = known_model(model.server.host, model.name)
    if found is None:
        return model._replace(sees_images=bool(sees_images))
    priced = model
    if model.input_price is None and model.output_price is None:
        cached = found.cached if model.cached_input_price is None else model.cached_input_price
        priced = model._replace(input_price=found.input, output_price=found.output, cached_input_price=cached)
    return priced._replace(
        context_window=model.context_window or found.window,
        sees_images=found.images if sees_images is None else sees_images,
    )
