"""Which model answers, and the key that its provider wants.

A key never stands in TOML, and never on a command line.
"""

import importlib.util
import os
from collections.abc import Iterator, Mapping
from typing import Final

from vibe_jupyter.config.loading import effective_environment
from vibe_jupyter.config.mcp_servers import McpHttp
from vibe_jupyter.config.providers import ModelEntry, ProviderEntry
from vibe_jupyter.config.settings import Settings
from vibe_jupyter.config.toml_file import config_path, env_path
from vibe_jupyter.errors import ConfigError, MissingModel
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm.catalogue import complete_model
from vibe_jupyter.llm.request import Model, Server
from vibe_jupyter.safe_imports import without_working_folder

SERVICE: Final = "vibe-jupyter"
"""Under which the keyring has our keys; the name in it is that of the variable."""
_PRIVATE: Final = 0o600
_SAFE: Final = 1
"""Least priority, in the package's own scale, of a keyring that it recommends."""

NAME_AT_URL: Final = lazy_pattern(r"(?P<name>\S+)@(?P<base>https?://\S+)")
"""A model given in one word, such as ``qwen3:8b@http://127.0.0.1:11434/v1``."""


IN_KEYRING: Final = "in the system's keyring"
"""The end of `Server.key_from` of a key that is there."""


def find_api_key(variable: str, environ: Mapping[str, str]) -> str:
    """The key that a variable names; empty where there is none."""
    return effective_environment(environ).get(variable, "").strip() or _find_in_keyring(variable)


def key_location(variable: str, environ: Mapping[str, str]) -> str:
    """Where `find_api_key` found it, in words for the user."""
    if environ.get(variable, "").strip():
        return f"the environment variable {variable}"
    if effective_environment(environ).get(variable, "").strip():
        return f"{variable} in {env_path(environ)}"
    return f"{variable} {IN_KEYRING}"


def has_keyring() -> bool:
    """Whether the package is installed and the system has a keyring behind it; a plain file is none."""
    with without_working_folder():
        if importlib.util.find_spec("keyring") is None:
            return False
        import keyring  # noqa: PLC0415 - optional, and slow to load

        behind = keyring.get_keyring()  # which imports what may be behind it
    return any(one.priority >= _SAFE for one in getattr(behind, "backends", [behind]))


def save_in_keyring(variable: str, key: str) -> None:
    """Put a key into the system's keyring.

    Raises:
        ConfigError: it does not take it.
    """
    with without_working_folder():
        import keyring  # noqa: PLC0415
        import keyring.errors  # noqa: PLC0415

        try:
            keyring.set_password(SERVICE, variable, key)
        except (keyring.errors.KeyringError, RuntimeError) as error:
            raise ConfigError(f"The keyring rejected the key: {error}. Choose another place for it.") from error


def save_in_env_file(variable: str, key: str, environ: Mapping[str, str]) -> None:
    """Put a key into the user's ``.env``, which only they may read; its other lines stay.

    Raises:
        ConfigError: the file cannot be written.
    """
    with without_working_folder():
        from dotenv import set_key  # noqa: PLC0415 - for those who store a key alone

    path = env_path(environ)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, _PRIVATE))
        path.chmod(_PRIVATE)
        set_key(path, variable, key, quote_mode="auto", follow_symlinks=True)
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror}. Choose another place for the key.") from error


def _find_in_keyring(variable: str) -> str:
    """A keyring that is locked or broken is one without the key: the error about the missing key says what to do."""
    if not has_keyring():
        return ""
    with without_working_folder():
        import keyring  # noqa: PLC0415
        import keyring.errors  # noqa: PLC0415

        try:
            return (keyring.get_password(SERVICE, variable) or "").strip()
        except (keyring.errors.KeyringError, RuntimeError):
            return ""


def choose_model(settings: Settings, name: str, environ: Mapping[str, str], *, keyed: bool = True) -> Model:
    """The model of an alias or name, any model of a provider as ``NAME@PROVIDER``, or one given as ``NAME@URL``; with
    its key unless it is only to be described.

    Raises:
        MissingModel: no such model or provider, or its key is not set.
        ConfigError: the settings do not allow the model.
    """
    if match := NAME_AT_URL.fullmatch(name):
        check_allowed(settings, match["name"], name)
        return Model(server=Server(name="", api_base=match["base"]), name=match["name"], alias=match["name"])
    by_alias = [entry for entry in settings.models if entry.known_as == name]
    by_name = [entry for entry in settings.models if entry.name == name]
    entry = next(iter([*by_alias, *by_name, *_of_provider(settings, name)]), None)
    if entry is None:
        known = ", ".join(settings.model_names())
        raise MissingModel(
            f"There is no model {name!r} in {config_path(environ)}. Known: {known}. "
            "Any model of a provider is NAME@PROVIDER, a server elsewhere NAME@URL; tour needs no key."
        )
    check_allowed(settings, entry.name, name)
    provider = next((one for one in settings.providers if one.name == entry.provider), None)
    if provider is None:
        raise MissingModel(
            f"The model {name!r} names the provider {entry.provider!r}, which has no [[providers]] entry in "
            f"{config_path(environ)}. Add one with name and api_base."
        )
    model = Model(
        server=_provider_server(provider, environ, keyed=keyed),
        name=entry.name,
        alias=entry.known_as,
        temperature=entry.temperature,
        max_tokens=entry.max_tokens,
        input_price=entry.input_price,
        output_price=entry.output_price,
        cached_input_price=entry.cached_input_price,
        thinking=entry.thinking,
        context_window=entry.context_window or entry.max_context_length,
        compact_at=entry.auto_compact_threshold,
    )
    return complete_model(model, sees_images=entry.supports_images)


def check_allowed(settings: Settings, model: str, chosen: str) -> None:
    """Check a model against ``allowed_models``.

    Args:
        settings: have the lists.
        model: what its server calls it, which is what the lists name.
        chosen: what it was chosen by.

    Raises:
        ConfigError: a list does not name it.
    """
    if settings.may_use_model(model):
        return
    lists = " and ".join(f"[{', '.join(one)}]" for one in settings.allowed_models)
    called = f"{chosen!r}" if chosen == model else f"{chosen!r} ({model})"
    raise ConfigError(
        f"The settings do not allow the model {called}: allowed_models = {lists}. The list has the names by which "
        "servers know their models, not aliases. Choose one of these, or change the list."
    )


def _of_provider(settings: Settings, name: str) -> Iterator[ModelEntry]:
    own, _, provider = name.rpartition("@")
    if own and any(one.name == provider for one in settings.providers):
        yield ModelEntry(name=own, provider=provider, alias=name)


def key_variables(settings: Settings) -> tuple[str, ...]:
    """The variables that the settings say hold keys."""
    servers = (provider.api_key_env_var for provider in settings.providers)
    others = (server.api_key_env for server in settings.mcp_servers if isinstance(server, McpHttp))
    return tuple(dict.fromkeys(name for name in (*servers, *others) if name))


def _provider_server(provider: ProviderEntry, environ: Mapping[str, str], *, keyed: bool) -> Server:
    key = _provider_key(provider, environ) if keyed else None
    return Server(
        name=provider.name,
        api_base=provider.api_base,
        api_key=key,
        key_from=key_location(provider.api_key_env_var, environ) if key else "",
        dialect="openai" if provider.backend == "generic" else provider.backend,
        headers=provider.extra_headers,
        reasoning_field=provider.reasoning_field or provider.reasoning_field_name,
        keep_alive=provider.keep_alive,
    )


def _provider_key(provider: ProviderEntry, environ: Mapping[str, str]) -> str | None:
    variable = provider.api_key_env_var
    if not variable:
        return None
    if key := find_api_key(variable, environ):
        return key
    raise MissingModel(
        f"No key for the provider {provider.name!r}: the variable {variable} is not set. %vibe setup asks for it. "
        f"Or set it before Jupyter starts, write {variable}=… into {env_path(environ)}, or set it in a cell: "
        f'import getpass, os; os.environ["{variable}"] = getpass.getpass()'
    )
