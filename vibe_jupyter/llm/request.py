"""What is asked of a model server, in values that know nothing of any wire format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal
from urllib.parse import urlsplit

from vibe_jupyter.protocol import Message, ToolSpec, Usage

DEFAULT_TEMPERATURE = 0.2
"""Seed 000, Optional Fields."""

NAMED_WAIT = 5.0
"""Seconds; the end of a longer wait is told as a time of day, and counted down."""

DialectName = Literal["openai", "mistral", "ollama", "mistralrs"]
Thinking = Literal["off", "low", "medium", "high", "max"]


@dataclass(frozen=True)
class Server:
    """Where a model is served."""

    name: str
    """The provider's name in the configuration; empty where the address was given without one."""
    api_base: str
    """Such as ``https://api.mistral.ai/v1``, with or without a slash at the end."""
    api_key: str | None = field(default=None, repr=False)
    """None where the server wants no key."""
    key_from: str = field(default="", compare=False)
    """Where the key was found, in words for the person; empty where that is not known."""
    dialect: DialectName = "openai"
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, hash=False)
    """Sent with each request beside our own, which they may not replace."""
    reasoning_field: str = ""
    """Where Chat Completions carry the reasoning, both ways; empty: the usual names are read, and none is sent."""
    keep_alive: str = ""
    """How long Ollama keeps the model loaded, such as ``30m``; empty: as long as Ollama likes."""

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
    cached_input_price: float | None = None
    """US dollars per million prompt tokens that the server read from its cache; None: as dear as the others."""
    thinking: Thinking | None = None
    """How much the model thinks before it answers; None: as the server likes."""
    sees_images: bool = False
    """Whether images are sent; a model that takes none is told in words that there was one."""
    context_window: int | None = None
    """Tokens; None where not known. Ollama is asked to reserve memory for as many."""

    def cost(self, usage: Usage) -> float | None:
        """US dollars for some tokens; None where the prices are not known. What a model thinks counts as output."""
        if self.input_price is None or self.output_price is None:
            return None
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        cached_price = self.input_price if self.cached_input_price is None else self.cached_input_price
        spent = (usage.prompt_tokens - cached) * self.input_price + cached * cached_price
        return (spent + usage.completion_tokens * self.output_price) / 1_000_000


@dataclass(frozen=True)
class Request:
    """One request of a conversation."""

    model: Model
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    stream: bool = True
    tool_choice: str = "auto"
    """``auto``, ``none`` (what is called all the same is dropped), ``required`` (at least one call), or the name of the
    one tool to call."""
    server_session: str = ""
    """What the server called its part of this conversation; empty where it keeps none."""


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """The client will try again; nothing of an answer was received."""

    seconds: float
    reason: str
    """Such as ``the server is busy (429)``."""

    @property
    def counted(self) -> float:
        """Seconds to count down before the person's eyes; 0 for a wait that is over before anyone has read of it."""
        return self.seconds if self.seconds >= NAMED_WAIT else 0.0

    @property
    def sentence(self) -> str:
        """For the person, at the moment the wait begins; a long one names its end, since not every view can count."""
        if self.seconds < NAMED_WAIT:
            return f"Trying again in {self.seconds:.1f} s: {self.reason}."
        until = datetime.now().astimezone() + timedelta(seconds=self.seconds)
        when = f"Trying again at {until:%H:%M:%S}, in {self.seconds:.0f} s"
        return f"{when}: {self.reason}. Stopping the run ends the wait."
