"""`%vibe mcp add`: from words to an entry of the settings."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from vibe_jupyter.config.mcp_servers import MOST_PATIENCE
from vibe_jupyter.errors import ConfigError

USAGE: Final = (
    "%vibe mcp add NAME [--env NAME[=VALUE]] [--cwd FOLDER] COMMAND… for a program, or "
    "%vibe mcp add NAME [--header NAME=VALUE] [--key VARIABLE] URL for a server elsewhere; both take --startup SECONDS"
)
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,39}")
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_URL: Final = re.compile(r"https?://\S+", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPTIONS: Final = ("--env", "--header", "--cwd", "--key", "--startup")
"""The last are the seconds it may take to start."""
_TRANSPORT: Final = "--transport"
"""What other programs want to be told; here it is seen from what follows."""
_SAME: Final[Mapping[str, str]] = {"-e": "--env", "-H": "--header", "-t": _TRANSPORT}
_SPOKEN: Final = {True: ("http", "streamable-http"), False: ("stdio",)}
"""Names of transports, by whether an address follows."""


def entry_of(words: Sequence[str]) -> dict[str, JsonValue]:
    """The entry that some words describe: a name, options, and a command or an address.

    Raises:
        ConfigError: they describe none; says what is wanted.
    """
    options: dict[str, list[str]] = {option: [] for option in (*_OPTIONS, _TRANSPORT)}
    rest = _options(list(words), options)  # other programs have them before the name
    name = rest.pop(0) if rest else ""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"A server wants a name of letters, digits, _ and -, not {name!r}. {USAGE}.")
    rest = _options(rest, options)
    if rest and rest[0] == "--":
        del rest[0]
    if not rest:
        raise ConfigError(f"There is neither a command nor an address. {USAGE}.")
    is_remote = _ADDRESS.fullmatch(rest[0]) is not None
    if is_remote and (len(rest) > 1 or not _URL.fullmatch(rest[0])):
        raise ConfigError(f"A server elsewhere is one address with http or https, not {' '.join(rest)!r}. {USAGE}.")
    _check_transport(options.pop(_TRANSPORT), is_remote=is_remote)
    entry = _remote(name, rest[0], options) if is_remote else _program(name, _command(rest), options)
    if options["--startup"]:
        entry["startup_timeout_sec"] = _seconds(options["--startup"][-1])
    return entry


def _options(words: list[str], options: dict[str, list[str]]) -> list[str]:
    """Take the options that stand first; gives what follows them."""
    while words and words[0].startswith("-") and words[0] != "--":
        option, given, value = words.pop(0).partition("=")
        option = _SAME.get(option, option)
        if option not in options:
            raise ConfigError(f"There is no option {option}. The options are: {', '.join(_OPTIONS)}. {USAGE}.")
        if not given and not words:
            raise ConfigError(f"The option {option} wants a value. {USAGE}.")
        options[option].append(value if given else words.pop(0))
    return words


def _check_transport(said: list[str], *, is_remote: bool) -> None:
    for transport in said:
        if transport not in _SPOKEN[is_remote]:
            what = "an address" if is_remote else "a command"
            raise ConfigError(f"The transport {transport} is not that of {what}; leave --transport away. {USAGE}.")


def _command(words: list[str]) -> list[str]:
    """A whole line between quotes is meant as its words, unless a program is called so."""
    if len(words) > 1 or Path(words[0]).expanduser().exists():
        return words
    try:
        return shlex.split(words[0]) or words
    except ValueError:
        return words


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
    if not _VARIABLE.fullmatch(name):
        raise ConfigError(f"The option --env wants NAME or NAME=VALUE, not {name!r}. {USAGE}.")
    return name, value if given else f"${{{name}}}"


def _header(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=" if ":" not in text.partition("=")[0] else ":")
    if not given or not name.strip():
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
