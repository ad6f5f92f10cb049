"""`%vibe mcp add`: from words to an entry of the settings."""

import re
from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from vibe_jupyter.config.mcp_servers import MOST_PATIENCE
from vibe_jupyter.errors import ConfigError

USAGE: Final = (
    "%vibe mcp add NAME [--env NAME[=VALUE]] [--cwd FOLDER] COMMAND… for a program, or "
    "%vibe mcp add NAME [--header NAME=VALUE] [--key VARIABLE] URL for a server elsewhere; both take --startup SECONDS"
)
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
_URL: Final = re.compile(r"https?://\S+", re.IGNORECASE)
_OPTIONS: Final = ("--env", "--header", "--cwd", "--key", "--startup")
"""The last are the seconds it may take to start."""


def entry_of(words: Sequence[str]) -> dict[str, JsonValue]:
    """The entry that some words describe: a name, options, and a command or an address.

    Raises:
        ConfigError: they describe none; says what is wanted.
    """
    name, rest = (words[0] if words else ""), list(words[1:])
    if not _NAME.fullmatch(name):
        raise ConfigError(f"A server wants a name of letters, digits, _ and -, not {name!r}. {USAGE}.")
    options: dict[str, list[str]] = {option: [] for option in _OPTIONS}
    while rest and rest[0].startswith("--"):
        option, given, value = rest.pop(0).partition("=")
        if option == "--":
            break
        if option not in options:
            raise ConfigError(f"There is no option {option}. The options are: {', '.join(_OPTIONS)}. {USAGE}.")
        if not given and not rest:
            raise ConfigError(f"The option {option} wants a value. {USAGE}.")
        options[option].append(value if given else rest.pop(0))
    if not rest:
        raise ConfigError(f"There is neither a command nor an address. {USAGE}.")
    is_remote = len(rest) == 1 and _URL.fullmatch(rest[0]) is not None
    entry = _remote(name, rest[0], options) if is_remote else _program(name, rest, options)
    if options["--startup"]:
        entry["startup_timeout_sec"] = _seconds(options["--startup"][-1])
    return entry


def _program(name: str, command: list[str], options: dict[str, list[str]]) -> dict[str, JsonValue]:
    _refuse(options, ("--header", "--key"), "a program")
    entry: dict[str, JsonValue] = {"name": name, "transport": "stdio", "command": list(command)}
    if options["--env"]:
        entry["env"] = {key: value for key, value in map(_variable, options["--env"])}
    if options["--cwd"]:
        entry["cwd"] = options["--cwd"][-1]
    return entry


def _remote(name: str, url: str, options: dict[str, list[str]]) -> dict[str, JsonValue]:
    _refuse(options, ("--env", "--cwd"), "a server elsewhere")
    entry: dict[str, JsonValue] = {"name": name, "transport": "http", "url": url}
    if options["--header"]:
        entry["headers"] = {key: value for key, value in map(_header, options["--header"])}
    if options["--key"]:
        entry["api_key_env"] = options["--key"][-1]
    return entry


def _refuse(options: dict[str, list[str]], names: tuple[str, ...], what: str) -> None:
    for name in names:
        if options[name]:
            raise ConfigError(f"The option {name} means nothing for {what}. {USAGE}.")


def _variable(text: str) -> tuple[str, str]:
    """A variable for a program; a name alone stands for the kernel's own value of it."""
    name, given, value = text.partition("=")
    return name, value if given else f"${{{name}}}"


def _header(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=" if ":" not in text.partition("=")[0] else ":")
    if not given:
        raise ConfigError(f"The option --header wants NAME=VALUE, not {name!r}. {USAGE}.")
    return name.strip(), value.strip()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MOST_PATIENCE:
        raise ConfigError(f"The option --startup wants seconds, not {text!r}. {USAGE}.")
    return seconds
