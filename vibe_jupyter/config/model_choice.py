"""Selection of a model, and look-up of its provider's API key.

Keys are never read from TOML or a command line.
"""

import importlib.util
import math
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

SERVICE: Final = "vibe-jupyter"  # service name in the keyring; the user name is the environment variable
_PRIVATE: Final = 0o600
_SAFE: Final = 1  # minimum priority at which the keyring package recommends a backend

# A model given in one word, such as `qwen3:8b@http://127.0.0.1:11434/v1`.
NAME_AT_URL: Final = lazy_pattern(r"(?P<name>\S+)@(?P<base>https?://\S+)")


IN_KEYRING: Final = "in the system's keyring"  # suffix of `Server.key_from` for a key in the keyring


def find_api_key(variable: str, environ: Mapping[str, str]) -> str:
    """Return the key in an environment variable, `.env` or the keyring, or "" if there is none."""
    return effective_environment(environ).get(variable, "").strip() or _find_in_keyring(variable)


def key_location(variable: str, environ: Mapping[str, str]) -> str:
    """Describe for the user where `find_api_key` found the key."""
    if environ.get(variable, "").strip():
        return f"the environment variable {variable}"
    if effective_environment(environ).get(variable, "").strip():
        return f"{variable} in {env_path(environ)}"
    return f"{variable} {IN_KEYRING}"


def has_keyring() -> bool:
    """Return whether a secure keyring is available. Backends that store keys in plain files don't count."""
    with without_working_folder():
        if importlib.util.find_spec("keyring") is None:
            return False
        import keyring  # noqa: PLC0415 - optional, and slow to load

        behind = keyring.get_keyring()  # imports the backends
    return any(one.priority >= _SAFE for one in getattr(behind, "backends", [behind]))


def save_in_keyring(variable: str, key: str) -> None:
    """Store a key in the system's keyring.

    Raises:
        ConfigError: The keyring rejects it.
    """
    with without_working_folder():
        import keyring  # noqa: PLC0415
        import keyring.errors  # noqa: PLC0415

        try:
            keyring.set_password(SERVICE, variable, key)
        except (keyring.errors.KeyringError, RuntimeError) as error:
            raise ConfigError(f"The keyring rejected the key: {error}. Choose another place for it.") from error


def save_in_env_file(variable: str, key: str, environ: Mapping[str, str]) -> None:
    """Store a key in the user's `.env`, readable only by the user. Preserves its other lines.

    Raises:
        ConfigError: The file can't be written.
    """
    with without_working_folder():
        from dotenv import set_key  # noqa: PLC0415 - only needed to store a key

    path = env_path(environ)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, _PRIVATE))
        path.chmod(_PRIVATE)
        set_key(path, variable, key, quote_mode="auto", follow_symlinks=True)
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror}. Choose another place for the key.") from error


def _find_in_keyring(variable: str) -> str:
    """Return the key in the keyring, or "". Errors of the keyring are ignored: the missing key is reported anyway."""
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
    """Return the model with an alias or name, or one given as `NAME@PROVIDER` or `NAME@URL`.

    Without `keyed`, the key is left out, for a model that is only described.

    Raises:
        MissingModel: No such model or provider, or its key isn't set.
        ConfigError: The settings don't allow the model.
    """
    if match := NAME_AT_URL.fullmatch(name):
        check_allowed(settings, match["name"], name)
        server = Server(name="", api_base=match["base"])
        return Model(server=_with_waits(server, settings), name=match["name"], alias=match["name"])
    by_alias = [entry for entry in settings.models if entry.known_as == name]
    by_name = [entry for entry in settings.models if entry.name == name]
    entry = next(iter([*by_alias, *by_name, *_of_provider(settings, name)]), None)
    if entry is None and "://" in name:
        raise MissingModel(f"{name!r} is no NAME@URL. Write it like qwen3@http://127.0.0.1:8080/v1.")
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
        server=_with_waits(_provider_server(provider, environ, keyed=keyed), settings),
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


def _with_waits(server: Server, settings: Settings) -> Server:
    """Return the server with the time limits of the settings, where 0 means none."""
    begin, idle = (
        math.inf if seconds == 0 else seconds for seconds in (settings.api_timeout, settings.api_stream_idle_timeout)
    )
    return server._replace(begin_wait=begin, idle_wait=idle)


def check_allowed(settings: Settings, model: str, chosen: str) -> None:
    """Check a model against `allowed_models`.

    Args:
        settings: Settings with the lists.
        model: The server's name for the model, which the lists contain.
        chosen: The name that the user chose it by.

    Raises:
        ConfigError: A list doesn't contain it.
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
    """Return the environment variables that hold keys according to the settings."""
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
        system_anywhere=provider.system_anywhere,
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
