"""``[[models]]``: what may answer, and what it costs (seed 000, Configuration)."""

from typing import ClassVar, Final

from pydantic import Field

from vibe_jupyter.config.entry import Entry
from vibe_jupyter.llm.request import DEFAULT_TEMPERATURE, Thinking


class ModelEntry(Entry):
    """One model of one provider."""

    unused: ClassVar = frozenset({"auto_compact_threshold"})

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
    supports_images: bool | None = None
    """Whether images are sent; None: as `vibe_jupyter.llm.catalogue` knows the model, else none."""
    thinking: Thinking | None = None
    """How much it thinks before it answers; None: as the server likes."""

    @property
    def known_as(self) -> str:
        """What a person calls it."""
        return self.alias or self.name


DEFAULT_MODELS: Final = (
    ModelEntry(
        name="mistral-vibe-cli-latest", provider="mistral", alias="devstral-2", input_price=0.4, output_price=2.0
    ),
    ModelEntry(
        name="devstral-small-latest", provider="mistral", alias="devstral-small", input_price=0.1, output_price=0.3
    ),
    ModelEntry(name="devstral", provider="llamacpp", alias="local", input_price=0, output_price=0),
)
DEFAULT_ACTIVE_MODEL: Final = "devstral-2"
