"""The reading commands of git, and the environment that keeps every git from running what a repository names."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vibe_jupyter.policy.shell.git_index import Tracked
from vibe_jupyter.policy.shell.operands import Operands
from vibe_jupyter.policy.shell.options import Argument, Given, OptionTable, table
from vibe_jupyter.policy.shell.readers import Call
from vibe_jupyter.policy.shell.repository import harmless_repository
from vibe_jupyter.policy.shell.verdict import Refused
from vibe_jupyter.tools.protected import protection

_DIFF: Final = (
    "-p -u --patch -s --no-patch -# -U:number --unified:number --raw --minimal --patience --histogram "
    "--diff-algorithm:word --stat?word --compact-summary --numstat --shortstat --dirstat?word --cumulative --summary "
    "--patch-with-stat --patch-with-raw -z --name-only --name-status --color?word --no-color --color-moved?word "
    "--no-color-moved --word-diff?word --color-words --no-renames --rename-empty --check --full-index --binary "
    "--abbrev?number -B -M -C -D --find-renames?word --find-copies?word --diff-filter:word --pickaxe-all "
    "--relative --no-relative -a --text --ignore-cr-at-eol --ignore-space-at-eol -b --ignore-space-change -w "
    "--ignore-all-space --ignore-blank-lines --inter-hunk-context:number -W --function-context --exit-code --quiet "
    "--no-ext-diff --no-textconv --src-prefix:text --dst-prefix:text --no-prefix -R -S:text -G:pattern "
    "--indent-heuristic --no-indent-heuristic "
)
_LOG: Final = _DIFF + (
    "--oneline -n:number --max-count:number --skip:number --since:text --after:text --until:text --before:text "
    "--author:pattern --committer:pattern --grep:pattern --all-match --invert-grep -i --regexp-ignore-case -E "
    "--extended-regexp -F --fixed-strings --basic-regexp --merges --no-merges --first-parent --all --branches?glob "
    "--tags?glob --remotes?glob --graph --decorate?word --no-decorate --source --format:format --pretty?format "
    "--abbrev-commit --no-abbrev-commit --date:text --relative-date --reverse --topo-order --date-order "
    "--author-date-order --follow --left-right --cherry-pick --cherry-mark --cherry --boundary "
    "--simplify-by-decoration --full-history --ancestry-path --children --parents --no-notes --no-walk -g "
    "--walk-reflogs --mailmap --use-mailmap -c --cc -m --diff-merges:word --log-size --no-merge-base --root "
    "--min-parents:number --max-parents:number --no-expand-tabs --clear-decorations "
)
_WITHOUT_PATCH: Final = (
    *("-s", "--no-patch", "--stat", "--name-only", "--name-status", "--raw", "--numstat", "--shortstat", "--summary"),
    *("--compact-summary", "--dirstat"),
)
_WITH_PATCH: Final = (
    *("-p", "-u", "--patch", "-U", "--unified", "-c", "--cc", "-m", "-W", "--function-context", "--word-diff"),
    *("--color-words", "--patch-with-stat", "--patch-with-raw", "--binary", "--diff-merges"),
)
_NEWEST: Final = ("HEAD", "@", "HEAD~1", "HEAD~", "HEAD^")
"""What a comparison with shows no more than the newest commit and what was changed since."""
_REVISION: Final = re.compile(r"\^?[\w./@{}^~+-]+(?:\.\.\.?[\w./@{}^~+-]*)?", re.ASCII)
_PATHSPEC_GLOB: Final = re.compile(r"[*?\[\\]")
_EXTENSION_GLOB: Final = re.compile(r"(?:[\w.-]+/|\*+/)*\*(\.\w+)", re.ASCII)


@dataclass(frozen=True)
class SubCommand:
    """One reading command of git."""

    options: OptionTable
    revisions: bool = True
    """Whether operands may be revisions."""
    needs: tuple[str, ...] = ()
    """Options of which one must be given before operands may be: without it they would name something new."""


_SUBCOMMANDS: Final[Mapping[str, SubCommand]] = {
    # The letters n, o, l, r, m, a are there for -uno, -uall and -unormal; alone git does not know them.
    "status": SubCommand(
        table(
            "-sbz -nolrma --short --branch --show-stash --porcelain?word --long --untracked-files?word -u "
            "--ignored?word --column?word --no-column --ahead-behind --no-ahead-behind --renames "
            "--no-renames --find-renames?number"
        ),
        revisions=False,
    ),
    "log": SubCommand(table(_LOG, clusters=False)),
    "show": SubCommand(table(_LOG, clusters=False)),
    "diff": SubCommand(table(f"{_DIFF} --staged --cached --merge-base -0 --base --ours --theirs", clusters=False)),
    "branch": SubCommand(
        table("-a -r -v -vv --all --remotes --verbose --show-current --list --sort:word --no-color", clusters=False),
        needs=("--list",),
    ),
    "tag": SubCommand(table("-l --list --sort:word --no-color", clusters=False), needs=("-l", "--list")),
    "ls-files": SubCommand(
        table(
            "-cdmoist --cached --deleted --modified --others --ignored --stage --exclude-standard --full-name --eol "
            "--error-unmatch --deduplicate -z"
        ),
        revisions=False,
    ),
    "rev-parse": SubCommand(
        table(
            "--show-toplevel --abbrev-ref --short?number --verify --quiet --is-inside-work-tree --show-prefix "
            "--symbolic-full-name -q",
            clusters=False,
        )
    ),
    "blame": SubCommand(table("-L:list -s -e -w -l -t -c -f -n --show-email --show-name --date:word", clusters=False)),
    "describe": SubCommand(table("--tags --always --dirty --long --all --abbrev:number", clusters=False)),
}
_GLOBAL: Final = ("--no-pager", "-P", "--no-optional-locks")
_ALONE: Final = ("--version",)


def git(call: Call, root: Path) -> None:
    """git, where this repository names no program to run (security C5)."""
    arguments = list(call.arguments)
    if [argument.text for argument in arguments] == list(_ALONE):
        return
    while arguments and arguments[0].text in _GLOBAL:
        arguments.pop(0)
    name = arguments[0].text if arguments else ""
    if (sub := _SUBCOMMANDS.get(name)) is None or arguments[0].from_glob:
        raise Refused("name", f"git {name} is not known to only read".replace("  ", " "))
    texts = [argument.text for argument in arguments]
    divide = texts.index("--") if "--" in texts else len(texts)
    given = sub.options.parse(arguments[1:divide], f"git {name}")
    if given.has("--help", "--version"):
        raise Refused("option", f"git {name} --help starts a program that shows manuals")
    paths = arguments[divide + 1 :]
    repository = harmless_repository(root)
    if repository is None and name == "diff":
        raise Refused("repository", "compares files without a repository")
    if repository is not None and _shows_patches(name, given):
        _check_patches(name, given, paths, _Look(root, repository.secrets))
    if sub.needs and (given.operands or paths) and not given.has(*sub.needs):
        raise Refused("operand", f"git {name} with a name is not known to only read")
    check = _check_revision if sub.revisions else _check_pathspec
    for operand in given.operands:
        check(operand.text, call.operands)
    for path in paths:
        _check_pathspec(path.text, call.operands)


@dataclass(frozen=True)
class _Look:
    """What a look at changes may meet."""

    root: Path
    secrets: Sequence[Tracked]

    def met(self, specs: Sequence[str]) -> Iterator[Tracked]:
        """The secrets below these paths; all of them where there is no path."""
        return (secret for secret in self.secrets if not specs or any(self._covers(spec, secret) for spec in specs))

    def _covers(self, spec: str, secret: Tracked) -> bool:
        inside = os.path.relpath(os.path.join(self.root, spec), self.root)
        return inside == "." or secret.name == inside or secret.name.startswith(f"{inside}/")


def _shows_patches(name: str, given: Given) -> bool:
    if name in ("show", "diff"):
        return not given.has(*_WITHOUT_PATCH) or given.has(*_WITH_PATCH)
    return name == "log" and given.has(*_WITH_PATCH)


def _check_patches(name: str, given: Given, paths: Sequence[Argument], look: _Look) -> None:
    """Changes may be those of a file with secrets that is kept to this day; the newest commit is let through."""
    named = [operand.text for operand in given.operands if os.path.lexists(look.root / operand.text)]
    specs = [*named, *(path.text for path in paths)]
    revisions = [operand.text for operand in given.operands if operand.text not in specs]
    if name == "diff":
        newest = all(revision in _NEWEST for revision in revisions)
    else:
        newest = _is_newest_commit(name, given, revisions)
    if name == "show" and revisions and all(":" in revision for revision in revisions):
        return  # files, and each was judged as one
    for secret in look.met(specs):
        if not newest:
            raise Refused("place", f"may show {secret.name}, which usually holds passwords or keys")
        if name == "diff" and not secret.is_as_listed(look.root):
            raise Refused("place", f"may show {secret.name}, which usually holds passwords or keys and was changed")


def _is_newest_commit(name: str, given: Given, revisions: Sequence[str]) -> bool:
    counts = given.values("-#", "-n", "--max-count")
    single = counts == ["1"] or (name == "show" and not counts)
    return revisions in ([], ["HEAD"]) and single and not given.has("--all", "-g", "--walk-reflogs", "--skip")


def _check_revision(text: str, operands: Operands) -> None:
    """A revision, a path, or ``revision:path``; what cannot be told is judged as both."""
    revision, colon, path = text.partition(":")
    if colon:
        if not _REVISION.fullmatch(revision):
            raise Refused("operand", f"it cannot be told what git takes {text!r} for")
        _check_pathspec(path or ".", operands)
    elif _REVISION.fullmatch(text):
        operands.path(text)
    else:
        _check_pathspec(text, operands)


def _check_pathspec(text: str, operands: Operands) -> None:
    if text.startswith(":"):
        raise Refused("operand", f"it cannot be told what git takes {text!r} for")
    if _PATHSPEC_GLOB.search(text):
        extension = _EXTENSION_GLOB.fullmatch(text)
        if extension is None or any(protection((f"{name}{extension[1]}",), "read") for name in ("", "x")):
            raise Refused("operand", f"it cannot be told what git takes {text!r} for")
        text = text.partition("*")[0]
    operands.path(text or ".")


def git_environment() -> Mapping[str, str]:
    """Variables for every command that is run.

    A watcher named by the repository does not start, a folder that only looks like a repository is none, reading
    takes no locks, nothing opens a pager, and nothing waits for a password. Hooks stay: a commit that was approved
    runs them.
    """
    settings = (("core.fsmonitor", "false"), ("core.pager", "cat"), ("safe.bareRepository", "explicit"))
    numbered = {f"GIT_CONFIG_KEY_{at}": key for at, (key, _) in enumerate(settings)}
    numbered |= {f"GIT_CONFIG_VALUE_{at}": value for at, (_, value) in enumerate(settings)}
    return {
        **numbered,
        "GIT_CONFIG_COUNT": str(len(settings)),
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
    }
