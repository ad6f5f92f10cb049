"""What is known of common models before anyone sets it: prices, context window, whether they see images.

Prices change. These are of the date below, and what you set in ``[[models]]`` counts instead. A model is known on its
maker's own server alone: the same name elsewhere may cost something else, or nothing.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from vibe_jupyter.llm.request import Model

AS_OF: Final = "November 2026"
"""Compared with the table of LiteLLM 1.109.1 then."""


class KnownModel(NamedTuple):
    """One model; prices in US dollars per million tokens."""

    input: float
    output: float
    cached: float
    """For input that the server read from its cache."""
    window: int
    """Tokens."""
    images: bool = True


_CODESTRAL = KnownModel(0.3, 0.9, 0.03, 128_000, images=False)
_MISTRAL_MEDIUM = KnownModel(1.5, 7.5, 0.15, 262_144)
_MISTRAL_SMALL = KnownModel(0.15, 0.6, 0.015, 262_144)

# What `config/providers.py` sets for a default model counts before what stands here.
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
"""Host, then the name sent on the wire."""


def known_model(host: str, name: str) -> KnownModel | None:
    """What is known of a model on a host; None where nothing is."""
    return KNOWN.get(host.lower().removesuffix(":443"), {}).get(name)


def complete_model(model: Model, *, sees_images: bool | None) -> Model:
    """The model, with what nobody set taken from the catalogue.

    Args:
        model: as it was set.
        sees_images: what was set of it; None for nothing.
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
