"""From the name of a model to everything that is needed to ask it."""

import re
from collections.abc import Mapping
from typing import Final

from vibe_jupyter.config.keys import key_of, place_of_key
from vibe_jupyter.config.mcp_servers import McpHttp
from vibe_jupyter.config.places import config_path, env_path
from vibe_jupyter.config.providers import ProviderEntry
from vibe_jupyter.config.settings import Settings
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.llm.catalogue import completed
from vibe_jupyter.llm.request import Model, Server

NAME_AT_URL: Final = re.compile(r"(?P<name>\S+)@(?P<base>https?://\S+)")
"""A model given in one word, such as ``qwen3:8b@http://127.0.0.1:11434/v1``."""


def model_of(settings: Settings, name: str, environ: Mapping[str, str], *, keyed: bool = True) -> Model:
    """The model of an alias or name, or one given as ``NAME@URL``, with its key unless it is only to be described.

    Raises:
        ConfigError: no such model or provider, or its key is not set.
    """
    if match := NAME_AT_URL.fullmatch(name):
        return Model(server=Server(name="", api_base=match["base"]), name=match["name"], alias=match["name"])
    by_alias = [entry for entry in settings.models if entry.known_as == name]
    entry = next(iter([*by_alias, *(entry for entry in settings.models if entry.name == name)]), None)
    if entry is None:
        known = ", ".join(settings.model_names())
        raise ConfigError(
            f"There is no model {name!r} in {config_path(environ)}. Known: {known}. "
            "A server elsewhere can be given as NAME@URL, with http:// or https://; tour needs no key."
        )
    provider = next((one for one in settings.providers if one.name == entry.provider), None)
    if provider is None:
        raise ConfigError(
            f"The model {name!r} names the provider {entry.provider!r}, which has no [[providers]] entry in "
            f"{config_path(environ)}. Add one with name and api_base."
        )
    model = Model(
        server=_server(provider, environ, keyed=keyed),
        name=entry.name,
        alias=entry.known_as,
        temperature=entry.temperature,
        max_tokens=entry.max_tokens,
        input_price=entry.input_price,
        output_price=entry.output_price,
        cached_input_price=entry.cached_input_price,
        thinking=entry.thinking,
        context_window=entry.context_window,
    )
    return completed(model, sees_images=entry.supports_images)


def key_variables(settings: Settings) -> tuple[str, ...]:
    """The variables that the settings say hold keys."""
    servers = (provider.api_key_env_var for provider in settings.providers)
    others = (server.api_key_env for server in settings.mcp_servers if isinstance(server, McpHttp))
    return tuple(dict.fromkeys(name for name in (*servers, *others) if name))


def _server(provider: ProviderEntry, environ: Mapping[str, str], *, keyed: bool) -> Server:
    key = _key(provider, environ) if keyed else None
    return Server(
        name=provider.name,
        api_base=provider.api_base,
        api_key=key,
        key_from=place_of_key(provider.api_key_env_var, environ) if key else "",
        dialect="openai" if provider.backend == "generic" else provider.backend,
        headers=provider.extra_headers,
        reasoning_field=provider.reasoning_field or provider.reasoning_field_name,
        keep_alive=provider.keep_alive,
    )


def _key(provider: ProviderEntry, environ: Mapping[str, str]) -> str | None:
    variable = provider.api_key_env_var
    if not variable:
        return None
    if key := key_of(variable, environ):
        return key
    raise ConfigError(
        f"No key for the provider {provider.name!r}: the variable {variable} is not set. %vibe setup asks for it. "
        f"Or set it before Jupyter starts, write {variable}=… into {env_path(environ)}, or set it in a cell: "
        f'import getpass, os; os.environ["{variable}"] = getpass.getpass()'
    )
