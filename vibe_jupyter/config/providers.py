"""`[[providers]]` and `[[models]]`: model servers, their models and prices."""

from typing import ClassVar, Final, Literal

from pydantic import Field

from vibe_jupyter.config.tables import Entry
from vibe_jupyter.llm.request import DEFAULT_TEMPERATURE, Thinking

DEFAULT_ACTIVE_MODEL: Final = "devstral-2"


class ProviderEntry(Entry):
    """A model server and the location of its key."""

    unused: ClassVar = frozenset(
        {"api_style", "browser_auth_allow_origin_rewrite", "browser_auth_api_base_url", "browser_auth_base_url"}
        | {"emits_finish_reason", "project_id", "region"}
    )

    name: str = Field(min_length=1)
    api_base: str = Field(min_length=1)
    api_key_env_var: str = ""
    """Name of the environment variable with the key, or "" if the server needs none."""
    backend: Literal["mistral", "generic", "ollama", "mistralrs"] = "generic"
    """API of the server. `generic` is Chat Completions, as spoken by OpenAI, llama.cpp, vLLM and most others."""
    extra_headers: dict[str, str] = {}
    """Headers of each request."""
    reasoning_field: str = ""
    """Field of Chat Completions for reasoning; "" to send it back in the field it was received in."""
    reasoning_field_name: str = ""
    """Mistral Vibe's key for `reasoning_field`."""
    keep_alive: str = ""
    """How long Ollama keeps the model loaded, such as `30m`; "" for Ollama's default."""
    system_anywhere: bool = False
    """Whether the gateway may send system messages in the middle of a conversation."""


DEFAULT_PROVIDERS: Final = (
    ProviderEntry.model_construct(
        name="mistral", api_base="https://api.mistral.ai/v1", api_key_env_var="MISTRAL_API_KEY", backend="mistral"
    ),
    ProviderEntry.model_construct(name="llamacpp", api_base="http://127.0.0.1:8080/v1"),
)


class ModelEntry(Entry):
    """A model of a provider."""

    unused: ClassVar = frozenset({"display_name", "thinking_levels"})

    name: str = Field(min_length=1)
    provider: str = Field(min_length=1)
    alias: str = ""
    temperature: float = Field(default=DEFAULT_TEMPERATURE, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    """Completion limit; None sends none."""
    input_price: float | None = Field(default=None, ge=0)
    """US dollars per million tokens; None if unknown."""
    output_price: float | None = Field(default=None, ge=0)
    cached_input_price: float | None = Field(default=None, ge=0)
    """Price of input that the server read from its cache; None if it is the same as for other input."""
    context_window: int | None = Field(default=None, ge=1)
    """Tokens; None if unknown."""
    max_context_length: int | None = Field(default=None, ge=1)
    """Mistral Vibe's key for `context_window`."""
    auto_compact_threshold: int | None = Field(default=None, ge=0)
    """The setting of the same name, for this model only; None for the general setting."""
    supports_images: bool | None = None
    """Whether images are sent; None if `vibe_jupyter.llm.connections` decides, which sends none to unknown models."""
    thinking: Thinking | None = None
    """Reasoning effort; None for the server's default."""

    @property
    def known_as(self) -> str:
        """The user's name for the model."""
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
