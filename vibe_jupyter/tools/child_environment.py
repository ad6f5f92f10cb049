"""Environment variables of the programs that we start."""

import fnmatch
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

# Variables that commands inherit from the kernel's environment.
PASSED_ON: Final = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "PYTHONPATH",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "CONDA_DEFAULT_ENV",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    }
)
LOCALE: Final = "LC_"  # prefix of further inherited variables

# Variables that make a shell or program run other code, so that something else would run than what was approved. Only
# the user's exact name lets them through; a pattern does not.
STEERING: Final = frozenset({"BASH_ENV", "ENV", "BASHOPTS", "SHELLOPTS"})
STEERING_FAMILIES: Final = ("BASH_FUNC_", "LD_", "DYLD_", "GIT_")  # prefixes of variables with the same effect

# Variables that tell programs that no user can answer them.
NOT_INTERACTIVE: Final[Mapping[str, str]] = {
    "CI": "true",
    "NONINTERACTIVE": "1",
    "NO_TTY": "1",
    "TERM": "dumb",
    "DEBIAN_FRONTEND": "noninteractive",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",  # else `pip list` may access the network, and start rustc for its user agent
    "PIP_NO_INPUT": "1",
}


class ProcessEnvironment(NamedTuple):
    """Working directory and inheritable environment of child processes."""

    folder: Path
    environ: Mapping[str, str]


def child_environment(environ: Mapping[str, str], also: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables that a command inherits, and those set for every command.

    Args:
        environ: the kernel's environment.
        also: further variables that the user lets through; ``*`` is a wildcard. Exact names are always passed.
    """
    named = frozenset(also)
    passed = {name: value for name, value in environ.items() if name in named or _is_passed(name, named)}
    return {**passed, **NOT_INTERACTIVE}


def _is_passed(name: str, patterns: Iterable[str]) -> bool:
    if name in STEERING or name.startswith(STEERING_FAMILIES):
        return False
    return (
        name in PASSED_ON or name.startswith(LOCALE) or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    )
