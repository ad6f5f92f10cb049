"""What is asked of a model server, in values that know nothing of any wire format."""

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from vibe_jupyter.protocol import Message, ToolSpec, Usage

DEFAULT_TEMPERATURE = 0.2
"""Seed 000, Optional Fields."""


@dataclass(frozen=True)
class Server:
    """Where a model is served."""

    name: str
    """The provider's name in the configuration; empty where the address was given without one."""
    api_base: str
    """Such as ``https://api.mistral.ai/v1``, with or without a slash at the end."""
    api_key: str | None = field(default=None, repr=False)
    """None where the server wants no key."""
    dialect: Literal["openai"] = "openai"

    @property
    def host(self) -> str:
        """The host that prompts are sent to, as shown to the person."""
        return urlsplit(self.api_base).netloc.rpartition("@")[2] or self.api_base


@dataclass(frozen=True)
class Model:
    """A model on a server, with its settings."""

    server: Server
    name: str
    """The name sent on the wire."""
    alias: str
    """The person's name for it."""
    temperature: float = DEFAULT_TEMPERATURE
    max_tokens: int | None = None
    """Completion limit in tokens; None sends none."""
    input_price: float | None = None
    """US dollars per million prompt tokens; None where not known."""
    output_price: float | None = None
    """US dollars per million completion tokens; None where not known."""

    def cost(self, usage: Usage) -> float | None:
        """US dollars for some tokens; None where the prices are not known."""
        if self.input_price is None or self.output_price is None:
            return None
        return (usage.prompt_tokens * self.input_price + usage.completion_tokens * self.output_price) / 1_000_000


@dataclass(frozen=True)
class Request:
    """One request of a conversation."""

    model: Model
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    stream: bool = True


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """The client will try again; nothing of an answer was received."""

    seconds: float
    reason: str
    """Such as ``the server is busy (429)``."""
