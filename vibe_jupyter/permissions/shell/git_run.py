"""Run git without the protected files in what it shows.

A program of its own, started by the shell function of `git_guard` in place of ``git``. It lists by name what the
command would show, and then becomes git, with pathspecs that leave protected files out. Whatever fails shows nothing.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NoReturn

from vibe_jupyter.files.protected import protect_also, protection_reason

_SHOWS: Final = ("diff", "show", "log", "grep", "-")  # beginnings of arguments that must have been judged
_PATHSPECS: Final = ("LITERAL", "GLOB", "NOGLOB", "ICASE")  # variables that change the meaning of pathspecs
_MOVED_SHOWN: Final = 400  # characters
_RENAMES: Final = ("--name-status", "-z", "-C20%", "-l1000", "--no-color", "--no-relative", "--ignore-submodules=all")
# Settings that would leave something out of a list, or add to it
LISTING: Final = ("-c", "log.diffMerges=separate", "-c", "log.showSignature=false")


class _NotRun(Exception):
    """The command must not run; holds the reason."""


def main() -> NoReturn:
    """Run git with the arguments of this process, after two of its own: what was judged, as JSON, and LC_CTYPE."""
    judged, ctype, words = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3:]
    os.environ["LC_CTYPE"] = ctype  # Python sets another where the locale is C
    if not ctype:
        del os.environ["LC_CTYPE"]
    protect_also(tuple(judged["own"]))
    try:
        os.execvp("git", ["git", *_arguments(judged, words)])
    except (_NotRun, OSError) as error:
        sys.exit(f"git: not run, since {error}")


def _arguments(judged: Any, words: Sequence[str]) -> Sequence[str]:
    """Return the arguments to run in place of these.

    Raises:
        _NotRun: These were not judged, or what they would show can't be listed.
    """
    found = frozenset(judged["found"])
    globbed = [word for word in words if word in found]
    call = _judged_call(judged["calls"], words, found)
    if call is None or not call["run"]:
        return words
    for name in _PATHSPECS:
        os.environ[f"GIT_{name}_PATHSPECS"] = "0"
    paths = [*(path for path in call["paths"] if path not in found), *globbed]
    hidden: set[str] = set()
    if call["names"]:
        within = [*call["names_in"], *(globbed if call["form"] == "commits" and call["names_in"] else ())]
        hidden = _hidden(call, within)
    return [*call["run"], "--", *paths, *(f":(top,exclude,literal){path}" for path in sorted(hidden))]


def _judged_call(calls: Any, words: Sequence[str], found: frozenset[str]) -> Any:
    """Return the judgement on these arguments in this folder, or None if they need none.

    Files found by a glob may be others than when it was judged, in any order.
    """
    plain = [word for word in words if word not in found]
    has_globbed = len(plain) < len(words)
    fitting: list[Any] = []
    for call in calls:
        given = [word for word in call["given"] if word not in found]
        if (given, len(given) < len(call["given"])) == (plain, has_globbed) and _is_here(call["here"]):
            fitting.append(call)
    if not fitting and words and words[0].startswith(_SHOWS):
        raise _NotRun("these arguments were not the ones judged")
    return max(fitting, key=lambda call: bool(call["run"]), default=None)


def _is_here(folder: str) -> bool:
    with suppress(OSError):  # it may be gone by now
        return os.path.samefile(".", folder)
    return False


def _hidden(call: Any, within: Sequence[str]) -> set[str]:
    """Return the files to leave out, from the top of the repository."""
    top, form = call["top"], call["form"]
    listed = _listed([*call["names"], "--", *within])
    if form in ("index", "files"):
        hidden = set(filter(_is_protected, listed))
        if form == "files":
            # A folder of the index may be a link by now, which git grep follows; to others its files are deleted
            deleted = ("diff-files", "--name-only", "-z", "--diff-filter=D", "--ignore-submodules=all")
            hidden |= {path for path in _listed(["-C", top, *deleted]) if os.path.exists(os.path.join(top, path))}
        return hidden
    changes = list(_changes(listed))
    hidden = {path for _, _, paths in changes for path in paths if _is_protected(path)}
    if not hidden:
        return hidden
    if form == "commits":
        commits = list(dict.fromkeys(commit for commit, _, paths in changes if not hidden.isdisjoint(paths)))
        commits.reverse()  # oldest first: a file may have been renamed twice
        again = _listed([*LISTING, "-C", top, "show", *commits, "--format=tformat:+%H", "-m", *_RENAMES, "--"])
    else:
        again = _listed([*("-C20%" if word == "--no-renames" else word for word in call["names"]), "--"])
    moved = _moved(list(_changes(again)), hidden)
    if moved:
        names = "".join(char if char.isprintable() else "?" for char in " ".join(sorted(moved)))
        _say(f"git: left out, since protected files came or went with them: {names[:_MOVED_SHOWN]}\n".encode())
    return hidden | moved


def _say(text: bytes) -> None:
    with suppress(OSError):  # the error output may be closed
        os.write(2, text)


def _is_protected(path: str) -> bool:
    names = path.split("/")
    return "" in names or ".." in names or protection_reason(names, "read") is not None


def _listed(words: Sequence[str]) -> list[str]:
    """Return what git lists, ended by NUL characters.

    Raises:
        _NotRun: It failed. Its own message is shown; warnings are left to the command itself.
    """
    done = subprocess.run(["git", *words], capture_output=True, check=False)
    if done.returncode:
        _say(done.stderr)
        raise _NotRun("what it would show can't be listed")
    return os.fsdecode(done.stdout).split("\0")[:-1]


def _changes(listed: Sequence[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Parse ``--name-status -z``. Yields commit ('' for none), kind and paths of each change."""
    commit, fields = "", iter(listed)
    for field in fields:
        kind = field.rpartition("\n")[2]
        if kind.startswith("+"):
            commit = kind[1:]
        else:
            yield commit, kind[:1], tuple(islice(fields, 2 if kind[:1] in ("R", "C") else 1))


def _moved(changes: Sequence[tuple[str, str, tuple[str, ...]]], hidden: set[str]) -> set[str]:
    """Return files that may be a protected one under another name.

    Those are its renames and copies, and what was added or deleted in a commit that deletes or adds it.
    """
    by_commit: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for commit, kind, paths in changes:
        by_commit.setdefault(commit, []).append((kind, paths))
    known = set(hidden)
    for here in by_commit.values():
        before = 0
        while len(known) > before:  # a copy may be listed before the rename that shows where both come from
            before = len(known)
            for kind, paths in here:
                if kind in ("R", "C") and not known.isdisjoint(paths):
                    known.update(paths)
        beside: set[str] = set()
        for kind, other in (("A", "D"), ("D", "A")):
            if any(one == kind and not known.isdisjoint(paths) for one, paths in here):
                beside.update(path for one, paths in here if one == other for path in paths)
        known |= beside
    return known - hidden
