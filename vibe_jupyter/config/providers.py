"""``[[providers]]`` and ``[[models]]``: the servers that answer, their models and what they cost."""

from typing import ClassVar, Final, Literal

from pydantic import Field

from vibe_jupyter.config.tables import Entry
from vibe_jupyter.llm.request import DEFAULT_TEMPERATURE, Thinking

DEFAULT_ACTIVE_MODEL: Final = "devstral-2"


class ProviderEntry(Entry):
    """One server, and where its key is."""

    unused: ClassVar = frozenset(
        {"api_style", "browser_auth_allow_origin_rewrite", "browser_auth_api_base_url", "browser_auth_base_url"}
        | {"emits_finish_reason", "project_id", "region"}
    )

    name: str = Field(min_length=1)
    api_base: str = Field(min_length=1)
    api_key_env_var: str = ""
    """Name of the environment variable that holds the key; empty where the server wants none."""
    backend: Literal["mistral", "generic", "ollama", "mistralrs"] = "generic"
    """What the server speaks; ``generic`` is Chat Completions, as OpenAI, llama.cpp, vLLM and most others do."""
    extra_headers: dict[str, str] = {}
    """Sent with each request."""
    reasoning_field: str = ""
    """Where Chat Completions carry what the model thinks; empty: the usual names are read, and none is sent."""
    reasoning_field_name: str = ""
    """The same, as Mistral Vibe calls it."""
    keep_alive: str = ""
    """How long Ollama keeps the model loaded, such as ``30m``; empty: as long as Ollama likes."""


DEFAULT_PROVIDERS: Final = (
    ProviderEntry.model_construct(
        name="mistral", api_base="https://api.mistral.ai/v1", api_key_env_var="MISTRAL_API_KEY", backend="mistral"
    ),
    ProviderEntry.model_construct(name="llamacpp", api_base="http://127.0.0.1:8080/v1"),
)


class ModelEntry(Entry):
    """One model of one provider."""

    unused: ClassVar = frozenset({"display_name", "thinking_levels"})

    name: str = Field(min_length=1)
    provider: str = Field(min_length=1)
    alias: str = ""
    temperature: float = Field(default=DEFAULT_TEMPERATURE, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    """Completion limit; None sends none."""
    input_price: float | None = Field(default=None, ge=0)
    """US dollars per million tokens; None where not known."""
    output_price: float | None = Field(default=None, ge=0)
    cached_input_price: float | None = Field(default=None, ge=0)
    """For input that the server read from its cache; None: as dear as other input."""
    context_window: int | None = Field(default=None, ge=1)
    """Tokens; None where not known."""
    max_context_length: int | None = Field(default=None, ge=1)
    """The same, as Mistral Vibe calls it."""
    auto_compact_threshold: int | None = Field(default=None, ge=0)
    """As the setting of that name, for this model alone; None for the setting."""
    supports_images: bool | None = None
    """Whether images are sent; None: as `vibe_jupyter.llm.connections` knows the model, else none."""
    thinking: Thinking | None = None
    """How much it thinks before it answers; None: as the server likes."""

    @property
    def known_as(self) -> str:
        """What a user calls it."""
        return self.alias or self.name


DEFAULT_MODELS: Final = (
    ModelEntry.model_construct(
        name="mistral-vibe-cli-latest", provider="mistral", alias="devstral-2", input_price=0.4, output_price=2.0
    ),
    ModelEntry.model_construct(
        name="devstral-small-latest", provider="mistral", alias="devstral-small", input_price=0.1, output_price=0.3
    ),
    ModelEntry.model_construct(name="devstral", provider="llamacpp", alias="local", input_price=0, output_price=0),
)
