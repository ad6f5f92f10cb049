"""What a program that we start sees of the kernel's environment."""

import fnmatch
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

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
"""Names a command gets from the kernel's environment where they are set."""
LOCALE: Final = "LC_"
"""It gets the names that begin so too."""

STEERING: Final = frozenset({"BASH_ENV", "ENV", "BASHOPTS", "SHELLOPTS"})
"""Names that make the shell or a program run other code, so that what was judged would not be what runs: a pattern of
the user's does not let them through, only their whole name does."""
STEERING_FAMILIES: Final = ("BASH_FUNC_", "LD_", "DYLD_", "GIT_")
"""Names that begin so do the same."""

NOT_INTERACTIVE: Final[Mapping[str, str]] = {
    "CI": "true",
    "NONINTERACTIVE": "1",
    "NO_TTY": "1",
    "TERM": "dumb",
    "DEBIAN_FRONTEND": "noninteractive",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",  # else `pip list` may ask the network, and start rustc to say who asks
    "PIP_NO_INPUT": "1",
}
"""What tells programs that nobody can answer them."""


class ProcessEnvironment(NamedTuple):
    """Where processes are started, and what of the kernel's environment there is to pass on."""

    folder: Path
    environ: Mapping[str, str]


def child_environment(environ: Mapping[str, str], also: Iterable[str] = ()) -> dict[str, str]:
    """What of `environ` a command may see, and the variables set for every command.

    Args:
        environ: the kernel's environment.
        also: further names the user lets through, whatever they are called; ``*`` stands for anything.
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
