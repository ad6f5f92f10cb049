"""``[[providers]]``: servers that answer (seed 000, Configuration)."""

from typing import ClassVar, Final, Literal

from pydantic import Field

from vibe_jupyter.config.entry import Entry


class ProviderEntry(Entry):
    """One server, and where its key is."""

    unused: ClassVar = frozenset(
        {"api_style", "browser_auth_api_base_url", "browser_auth_base_url", "extra_headers", "project_id"}
        | {"reasoning_field_name", "region"}
    )

    name: str = Field(min_length=1)
    api_base: str = Field(min_length=1)
    api_key_env_var: str = ""
    """Name of the environment variable that holds the key; empty where the server wants none."""
    backend: Literal["mistral", "generic"] = "generic"


DEFAULT_PROVIDERS: Final = (
    ProviderEntry(
        name="mistral", api_base="https://api.mistral.ai/v1", api_key_env_var="MISTRAL_API_KEY", backend="mistral"
    ),
    ProviderEntry(name="llamacpp", api_base="http://127.0.0.1:8080/v1"),
)
