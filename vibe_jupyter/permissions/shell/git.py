"""Check git's read-only commands.

Commands that show only names, numbers and messages are allowed. Commands that show or search content are allowed if no
protected or outside file is involved, according to the names in the index and in the commits to be shown.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.git_changes import Look, pathspecs
from vibe_jupyter.permissions.shell.git_commands import (
    GLOBAL_OPTIONS,
    IGNORING_CHANGES,
    NARROWING,
    SETTINGS,
    SILENT,
    SUBCOMMANDS,
    WITH_PATCH,
    WITHOUT_PATCH,
    SubCommand,
)
from vibe_jupyter.permissions.shell.git_config import Trait, text_of
from vibe_jupyter.permissions.shell.git_repository import Repository
from vibe_jupyter.permissions.shell.operands import Operands
from vibe_jupyter.permissions.shell.options import CommandArgument, GivenOptions, is_safe_pattern
from vibe_jupyter.permissions.shell.read_only_commands import CommandCall

_ALONE: Final = ("--version",)
_REVISION: Final = re.compile(r"\^?[\w./@{}^~+-]+(?:\.\.\.?[\w./@{}^~+-]*)?", re.ASCII)
# A path that doesn't exist. Only used after no revision of that name was found.
_MISSING_PATH: Final = re.compile(r"(?!.*(?:\.\.|-g[0-9a-f]{4,}$))(?:[\w.-]+/)+[\w.-]+", re.ASCII)
_REFLOG_COMMANDS: Final = ("delete", "drop", "exists", "expire", "list", "write")
_PICKAXE: Final = ("-S", "-G")
_EVERYTHING: Final = ("--all", "--branches", "--tags", "--remotes", "-g", "--walk-reflogs", "--boundary")
_WITH_PASSWORD: Final = re.compile(r"://[^/\s]*@")
# Files in the home folder that may rewrite addresses (`insteadOf`).
_USER_SETTINGS: Final = (".gitconfig", ".config/git/config")


def check_git(call: CommandCall) -> None:
    """Check a git command: the repository must name no program to run, and nothing protected may be shown."""
    arguments = list(call.arguments)
    if [argument.text for argument in arguments] == list(_ALONE):
        return
    operands = _global_options(arguments, call.operands)
    name = arguments[0].text if arguments else ""
    if name in ("stash", "remote", "worktree") and len(arguments) > 1 and not arguments[1].text.startswith("-"):
        name = f"{name} {arguments.pop(1).text}"
    if name == "reflog" and len(arguments) > 1:
        if arguments[1].text in _REFLOG_COMMANDS:
            raise UnknownCommand("name", f"git reflog {arguments[1].text} is not known to be read-only")
        if arguments[1].text == "show":
            del arguments[1]
    if (sub := SUBCOMMANDS.get(name)) is None or arguments[0].from_glob:
        raise UnknownCommand("name", f"git {name} is not known to be read-only".replace("  ", " "))
    texts = [argument.text for argument in arguments]
    divide = texts.index("--") if "--" in texts else len(texts)
    given = sub.options.parse(arguments[1:divide], f"git {name}")
    if given.has("--help", "--version"):
        raise UnknownCommand("option", f"git {name} --help starts a program that shows manuals")
    home = os.path.expanduser("~")
    repository = operands.repository(home)
    if repository is None:
        if sub.outside is False:
            raise UnknownCommand("repository", f"git {name} reads files without a repository")
        return
    _GitCall(name, sub, given, tuple(arguments[divide + 1 :]), operands, repository, home).check()


def _global_options(arguments: list[CommandArgument], operands: Operands) -> Operands:
    """Consume the options before the subcommand. Returns the operands for the folder in which it runs."""
    while arguments and not arguments[0].from_glob:
        if arguments[0].text in GLOBAL_OPTIONS:
            arguments.pop(0)
        elif arguments[0].text == "-C" and len(arguments) > 1 and not arguments[1].from_glob:
            located = operands.path(arguments[1].text or ".")
            if located.kind != "directory":
                raise UnknownCommand("operand", f"git -C {arguments[1].text} names no folder")
            operands = operands.at(located.path)
            del arguments[:2]
        elif arguments[0].text == "-c" and len(arguments) > 1 and arguments[1].text in SETTINGS:
            del arguments[:2]
        else:
            break
    return operands


@dataclass(frozen=True)
class _GitCall:
    """A read-only git command in a repository."""

    name: str
    sub: SubCommand
    given: GivenOptions
    behind: tuple[CommandArgument, ...]  # arguments after `--`
    operands: Operands
    repository: Repository
    home: str

    def check(self) -> None:
        given, sub = self.given, self.sub
        self.repository.check(self._repository_traits())
        if sub.needs and (given.operands or self.behind) and not given.has(*sub.needs):
            raise UnknownCommand("operand", f"git {self.name} with a name is not known to be read-only")
        if sub.most is not None and len(given.operands) + len(self.behind) > sub.most:
            raise UnknownCommand("operand", f"git {self.name} with so many names is not known to be read-only")
        if self.name in ("remote", "remote get-url"):
            self._check_addresses()
        if self.name == "grep":
            self._check_search()
            return
        check = self._check_revision if sub.revisions else self._check_pathspec
        for operand in given.operands:
            check(operand.text)
        for path in self.behind:
            self._check_pathspec(path.text)
        if self.name == "show" or self._shows_content:
            self._check_changes()

    @property
    def _shows_patches(self) -> bool:
        given = self.given
        if given.has(*WITH_PATCH):
            return True
        return self.name in ("show", "diff") and not given.has(*WITHOUT_PATCH)

    @property
    def _shows_content(self) -> bool:
        return self.sub.shows_changes and (self._shows_patches or self.given.has(*_PICKAXE))

    def _repository_traits(self) -> frozenset[Trait]:
        traits = set(self.sub.traits)
        given = self.given
        compares = self.sub.shows_changes and given.has(*SILENT) and given.has(*IGNORING_CHANGES)
        if (self._shows_content or compares) and not given.has("--no-textconv"):
            traits.add("patch")
        if self.name == "diff":
            if (self._shows_patches or compares) and not given.has("--no-ext-diff"):
                traits.add("external")
            if given.has("--staged", "--cached"):
                traits.discard("worktree")
        if self.name == "describe" and given.has("--dirty"):
            traits.add("worktree")
        return frozenset(traits)

    def _check_revision(self, text: str) -> None:
        """Check a revision, a path, or ``revision:path``. Anything ambiguous is checked as both."""
        revision, colon, path = text.partition(":")
        if colon:
            if not _REVISION.fullmatch(revision):
                raise UnknownCommand("operand", f"it is unclear how git reads {text!r}")
            self._check_stored(text, revision, path)
        elif _REVISION.fullmatch(text):
            if self.operands.exists(text):
                self._check_pathspec(text)
        else:
            self._check_pathspec(text)

    def _check_stored(self, text: str, revision: str, path: str) -> None:
        """Check a file in a revision by its path from the top of the repository."""
        top = self.repository.root
        start = self.operands.here if path.startswith(("./", "../")) or path in (".", "..") else top
        inside = os.path.relpath(os.path.join(start, path), top)
        if inside == ".." or inside.startswith("../") or path.startswith("/"):
            raise UnknownCommand("operand", f"it is unclear how git reads {text!r}")
        look = self._look_at(())
        if why := look.why_hidden(inside) if inside != "." else None:
            raise UnknownCommand("place", f"reads {inside}, which {why}")
        if look.tree_of(revision) is None:
            raise UnknownCommand("operand", f"it is unclear how git reads {text!r}")

    def _check_pathspec(self, text: str) -> None:
        """Check that a path may be read. The files matched by a glob are taken from the repository instead."""
        specs = pathspecs([text], self.operands.here, self.repository.root)
        named = specs.plain_name
        if named is not None and self.sub.names_files:
            self.operands.path(str(self.repository.root / named))

    def _check_addresses(self) -> None:
        """Refuse addresses with a password, since the command prints them."""
        texts = [f"{setting.part} {setting.value}" for setting in self.repository.settings]
        texts += [text_of(path) for name in _USER_SETTINGS if (path := Path(self.home, name)).is_file()]
        if any(map(_WITH_PASSWORD.search, texts)):
            raise UnknownCommand("place", "may show a password in the address of another repository")

    def _look_at(self, paths: Sequence[str]) -> Look:
        specs = pathspecs(paths, self.operands.here, self.repository.root)
        return Look(self.repository, self.operands.workspace.root, specs)

    def _split_operands(self) -> tuple[list[str], list[str]]:
        """Split the operands into revisions and paths."""
        look = self._look_at(())
        revisions: list[str] = []
        paths: list[str] = []
        for operand in self.given.operands:
            text = operand.text
            if not paths and ":" in text and not text.startswith(":"):
                continue  # a file in a revision, already checked
            if not paths and _REVISION.fullmatch(text) and self._is_revision(look, text):
                revisions.append(text)
            elif self.operands.exists(text) or any(mark in text for mark in "*?[:") or _MISSING_PATH.fullmatch(text):
                paths.append(text)
            else:
                raise UnknownCommand("operand", f"it is unclear how git reads {text!r}")
        return revisions, paths + [argument.text for argument in self.behind]

    def _is_revision(self, look: Look, text: str) -> bool:
        ends = [end or "HEAD" for end in re.split(r"\.\.\.?", text.removeprefix("^"), maxsplit=1)]
        known = [look.repository.objects.resolve(end) is not None for end in ends]
        return all(known) or (text in ("HEAD", "@") and not self.operands.exists(text))

    def _check_changes(self) -> None:
        if self.name == "reflog" or self.given.has(*_EVERYTHING):
            raise UnknownCommand("place", f"git {self.name} would show what is in every branch")
        revisions, paths = self._split_operands()
        if self.given.has("--follow"):
            paths = []  # the file may have had any name before
        look = self._look_at(paths)
        if self.name == "diff":
            look.refuse(self._compared_trees(look, revisions))
            return
        stored = any(":" in operand.text for operand in self.given.operands)
        if self._shows_content and not (stored and not revisions):
            look.refuse(look.in_commits(self._shown_commits(look, revisions, narrowed=bool(paths))))

    def _compared_trees(self, look: Look, revisions: Sequence[str]) -> list[str]:
        staged = self.given.has("--staged", "--cached")
        if any(":" in operand.text for operand in self.given.operands):
            if revisions or staged:
                raise UnknownCommand("operand", "it is unclear what git compares here")
            return []
        ends = [end or "HEAD" for text in revisions for end in text.split("..", 1)]
        if len(revisions) == 1 and "..." in revisions[0]:
            return self._since_parting(look, revisions[0])
        if len(ends) > 2 or (len(ends) == 2 and staged) or self.given.has("--merge-base") or any(map(_is_odd, ends)):
            raise UnknownCommand("operand", "it is unclear what git compares here")
        if len(ends) == 2:
            return list(look.between(look.tree_of(ends[0]), look.tree_of(ends[1])))
        changed = [] if staged else list(look.changed_in_work_tree())
        if not ends and not staged:
            return changed
        return [*changed, *look.staged_against(look.tree_of(ends[0] if ends else "HEAD"))]

    def _since_parting(self, look: Look, text: str) -> list[str]:
        one, other = (look.repository.objects.resolve(end or "HEAD") for end in text.split("...", 1))
        if one is None or other is None:
            return []
        bases = look.merge_bases(one, other)
        return [path for base in bases for path in look.between(look.tree_of(base), look.tree_of(other))]

    def _shown_commits(self, look: Look, revisions: Sequence[str], *, narrowed: bool) -> list[str]:
        """Return a superset of the commits shown."""
        starts: list[str] = []
        until: list[str] = []
        for text in revisions or ["HEAD"]:
            two_sided = "..." in text
            left, dots, right = text.removeprefix("^").partition("..." if two_sided else "..")
            target = until if text.startswith("^") or (dots and not two_sided) else starts
            target.append(left or "HEAD")
            if dots:
                starts.append(right or "HEAD")
        begin, end = (
            [oid for name in names if (oid := look.repository.objects.resolve(name))] for names in (starts, until)
        )
        if self.name == "show" and not until:
            return begin
        return look.history(begin, end, self._most_commits(narrowed=narrowed))

    def _most_commits(self, *, narrowed: bool) -> int | None:
        """Return an upper bound of the steps back from the starting commits, or None if there is none."""
        given = self.given
        counts, skipped = given.values("-#", "-n", "--max-count"), given.values("--skip")
        # Git also takes numbers with a sign, and a negative one as no limit.
        if not all(count.isascii() and count.isdecimal() for count in (*counts, *skipped)):
            return None
        if not counts or given.has(*NARROWING) or narrowed:
            return None
        return int(counts[-1]) + sum(map(int, skipped))

    def _check_search(self) -> None:
        """Check ``git grep``, which searches the files of the index or of the given commits."""
        given = self.given
        operands = [operand.text for operand in given.operands]
        patterns = given.values("-e")
        if not patterns:
            if not operands:
                raise UnknownCommand("operand", "git grep has no pattern")
            patterns = [operands.pop(0)]
        if not given.has("-F", "--fixed-strings") and not all(map(is_safe_pattern, patterns)):
            raise UnknownCommand("operand", "its pattern may take very long")
        resolve = self.repository.objects.resolve
        commits: list[str] = []
        while operands and _REVISION.fullmatch(operands[0]) and (oid := resolve(operands[0])):
            commits.append(oid)
            operands.pop(0)
        if any(":" in operand and not operand.startswith(":") for operand in operands):
            raise UnknownCommand("operand", "it is unclear what git looks through here")
        paths = [*operands, *(argument.text for argument in self.behind)]
        for path in paths:
            self._check_pathspec(path)
        look = self._look_at(paths if any(map(_is_wanted, paths)) else [*paths, "."])
        if not commits:
            look.refuse(look.in_index())
        if not commits and not given.has("--cached"):
            look.refuse_links()
        for oid in commits:
            look.refuse(look.between(None, look.tree_of(oid)))


def _is_wanted(path: str) -> bool:
    return not path.startswith((":!", ":^", ":(exclude"))


def _is_odd(revision: str) -> bool:
    return revision.startswith("^")
