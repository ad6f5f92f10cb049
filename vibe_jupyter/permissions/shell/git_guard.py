"""A shell function that keeps protected files out of the changes and lines that git shows (`git_run`)."""

import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from vibe_jupyter.files.protected import own_patterns

_PACKAGES: Final = str(Path(__file__).parents[3])  # folder that holds this package
_PROGRAM: Final = (
    "import signal as s, sys; s.getsignal(s.SIGINT) is s.default_int_handler and s.signal(s.SIGINT, s.SIG_DFL); "
    f"sys.path.append({_PACKAGES!r}); import vibe_jupyter.permissions.shell.git_run as it; it.main()"
)
# It acts only in the shell that runs this line, not in scripts and hooks that it starts. With `-I` and `-S`, Python
# imports nothing of the working folder and no `sitecustomize`; names are UTF-8 in every locale, as in git.
_FUNCTION: Final = """() {{
if [[ ${{BASH_EXECUTION_STRING-}} == {command} ]]; then command {python} -I -S -X utf8 -c {program} {judged} \
"${{LC_CTYPE-}}" "$@"
else command git "$@"; fi
}}"""


class GuardedGit(NamedTuple):
    """A git command as it was judged, and as it must be run."""

    given: tuple[str, ...]  # arguments as written
    run: tuple[str, ...] = ()  # arguments to run instead, without paths; empty to run those written
    paths: tuple[str, ...] = ()
    # A command that lists what is shown, with its paths, and the form of the list: ``--name-status -z`` with the ids of
    # commits or without, or names alone
    names: tuple[str, ...] = ()
    names_in: tuple[str, ...] = ()
    form: Literal["commits", "diff", "index", "files"] = "diff"  # "files" is an index whose files are searched
    top: str = ""  # of the work tree
    found: frozenset[str] = frozenset()  # arguments found by a glob, maybe in another order or more than in bash
    here: str = ""  # folder in which it runs: the same arguments may mean something else in another


def can_guard() -> bool:
    """Return whether bash takes functions from its environment.

    Apple's bash expects them under another name, and a privileged shell takes none.
    """
    return sys.platform == "linux" and bool(sys.executable) and "privileged" not in os.environ.get("SHELLOPTS", "")


def git_function(command: str, calls: Sequence[GuardedGit]) -> str:
    """Return a shell function in place of ``git`` for one command line."""
    judged = {
        "calls": [{**call._asdict(), "found": ()} for call in dict.fromkeys(calls)],
        "found": sorted(frozenset[str]().union(*(call.found for call in calls))),
        "own": own_patterns(),
    }
    words = {"command": command, "python": sys.executable, "program": _PROGRAM, "judged": json.dumps(judged)}
    return _FUNCTION.format(**{name: shlex.quote(word) for name, word in words.items()})
