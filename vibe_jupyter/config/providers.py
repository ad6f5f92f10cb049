"""``[[providers]]``: servers that answer (seed 000, Configuration)."""

from typing import ClassVar, Final, Literal

from pydantic import Field

from vibe_jupyter.config.entry import Entry


class ProviderEntry(Entry):
    """One server, and where its key is."""

    unused: ClassVar = frozenset(
        {"api_style", "browser_auth_api_base_url", "browser_auth_base_url", "project_id", "region"}
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
    ProviderEntry(
        name="mistral", api_base="https://api.mistral.ai/v1", api_key_env_var="MISTRAL_API_KEY", backend="mistral"
    ),
    ProviderEntry(name="llamacpp", api_base="http://127.0.0.1:8080/v1"),
)
