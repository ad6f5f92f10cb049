"""Command patterns: those of the user's allowlist and denylists, and those stored by grants."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vibe_jupyter.permissions.shell.command_line import ShellWord
from vibe_jupyter.permissions.shell.evaluation import Simple

# Interactive programs, for which no terminal exists here.
DEFAULT_DENYLIST: Final = (
    *("gdb", "pdb", "passwd", "nano", "vim", "vi", "emacs", "screen", "tmux"),
    *("bash -i", "sh -i", "zsh -i", "fish -i", "dash -i"),
)
# Programs that wait for a user if they have neither arguments nor input.
DEFAULT_DENYLIST_STANDALONE: Final = (
    *("python", "python3", "ipython", "bash", "sh", "zsh", "fish", "dash", "nohup", "vi", "vim", "emacs", "nano", "su"),
)
_WRAPPERS: Final = frozenset({"command", "builtin", "exec", "env", "nohup", "nice", "time", "sudo", "stdbuf", "setsid"})

PREFIX: Final = "bash: "
_DIVIDER: Final = "; "
# Commands that may change the meaning of the commands after them.
CHANGES_THE_SHELL: Final = frozenset(
    {
        *(
            "cd",
            "pushd",
            "popd",
            "exec",
            "eval",
            "source",
            ".",
            "set",
            "unset",
            "shopt",
            "export",
            "declare",
            "typeset",
        ),
        *("local", "readonly", "alias", "unalias", "trap", "hash", "enable", "read", "mapfile", "readarray", "printf"),
        *("let", "umask", "ulimit", "getopts", "shift", "builtin", "command", "bind", "complete", "history", "fc"),
    }
)
_ONCE: Final = CHANGES_THE_SHELL | {"sudo", "su", "doas", "pkexec", "runas"}
# Programs that run or write whatever their arguments name. Grants for them end with the session.
_RUNNERS: Final = frozenset(
    {
        *("sh", "bash", "zsh", "dash", "fish", "ksh", "csh", "tcsh", "busybox"),
        *("python", "python3", "pypy", "ipython", "jupyter", "papermill", "node", "deno", "bun", "perl", "ruby", "php"),
        *("lua", "Rscript", "R", "julia", "awk", "gawk", "sed", "env", "xargs", "nohup", "nice"),
        *("time", "timeout", "watch", "stdbuf", "setsid", "parallel", "ssh", "find", "git", "docker", "podman", "tee"),
    }
)


@dataclass(frozen=True)
class ShellLists:
    """Lists of ``[tools.bash]``. A pattern matches the leading words of a command."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = DEFAULT_DENYLIST
    deny_standalone: tuple[str, ...] = DEFAULT_DENYLIST_STANDALONE

    def denied(self, words: Sequence[str], *, fed: bool) -> str | None:
        """Return the pattern that denies a command, or None."""
        if list(words[:1]) == ["command"] and words[1:2] and words[1] in ("-v", "-V"):
            return None  # it only says where programs are
        words = _without_wrappers(words)
        if not words:
            return None
        if not fed and len(words) == 1 and words[0] in self.deny_standalone:
            return words[0]
        return next((pattern for pattern in self.deny if _begins_with(words, pattern)), None)

    def allowed(self, simple: Simple, *, known: bool) -> bool:
        """Return whether the allowlist covers a command.

        Args:
            simple: A command with literal words.
            known: Whether there is a table of its read-only options. If so, a pattern must match the whole command:
                ``find`` in the list doesn't allow ``find -delete``.
        """
        words = [word.text for word in simple.words]
        if any(word.wild for word in simple.words) or simple.here is not None:
            return False
        if known:
            return any(_split_pattern(pattern) == words for pattern in self.allow)
        return any(_begins_with(words, pattern) for pattern in self.allow)


def _begins_with(words: Sequence[str], pattern: str) -> bool:
    wanted = _split_pattern(pattern)
    return bool(wanted) and list(words[: len(wanted)]) == wanted


def _split_pattern(pattern: str) -> list[str]:
    try:
        words = shlex.split(pattern)
    except ValueError:
        words = pattern.split()
    return words[:-1] if words and words[-1] == "*" else words


def _without_wrappers(words: Sequence[str]) -> list[str]:
    """Strip wrapper programs, and the folder and quotes of the name."""
    left = [word.strip("'\"\\") for word in words]
    while len(left) > 1 and left[0].rpartition("/")[2] in _WRAPPERS:
        left = left[1:]
        while left and (left[0].startswith("-") or "=" in left[0]):
            left = left[1:]
    return [left[0].rpartition("/")[2], *left[1:]] if left else []


def grant_pattern(commands: Sequence[Simple], root: Path) -> str | None:
    """Return the pattern a grant would store, or None if only a single approval is possible."""
    if any(simple.name.rpartition("/")[2] in _ONCE for simple in commands):
        return None
    return PREFIX + _DIVIDER.join(dict.fromkeys(_written_command(simple, root) for simple in commands))


def is_keepable(commands: Sequence[Simple]) -> bool:
    """Return whether a grant for these commands may outlast the session."""
    return all(
        "/" not in simple.name and simple.name.rstrip("0123456789.") not in _RUNNERS and simple.name not in _RUNNERS
        for simple in commands
    )


def pattern_parts(pattern: str) -> tuple[str, ...]:
    """Split a pattern into one pattern per command."""
    if not pattern.startswith(PREFIX):
        return tuple(pattern.split("+"))
    words = shlex.shlex(pattern.removeprefix(PREFIX), posix=False, punctuation_chars=";")
    words.whitespace_split = True
    out: list[list[str]] = [[]]
    try:
        for word in words:
            if word == ";":
                out.append([])
            else:
                out[-1].append(word)
    except ValueError:  # an unclosed quote, which no pattern of ours contains
        return ()
    return tuple(PREFIX + " ".join(part) for part in out if part)


def _written_command(simple: Simple, root: Path) -> str:
    words = " ".join(map(_quoted_word, simple.words))
    source = "".join(f" < {shlex.quote(file.text)}" for file in simple.files)
    where = f"cd {shlex.quote(os.path.relpath(simple.here, root))} && " if simple.here else ""
    return f"{where}{words}{source}"


def _quoted_word(word: ShellWord) -> str:
    return word.raw if word.wild else shlex.quote(word.text)
