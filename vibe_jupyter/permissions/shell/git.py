"""Check git's read-only commands.

Commands that show only names, numbers and messages are allowed. Those that show or search content are allowed where
`git_guard` can leave protected and outside files out of it. A file at a revision asks.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.files.protected import protection_reason
from vibe_jupyter.permissions.shell import UnknownCommand
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
from vibe_jupyter.permissions.shell.git_guard import GuardedGit, can_guard
from vibe_jupyter.permissions.shell.git_repository import Repository
from vibe_jupyter.permissions.shell.git_run import LISTING
from vibe_jupyter.permissions.shell.operands import Operands
from vibe_jupyter.permissions.shell.options import CommandArgument, GivenOptions, is_safe_pattern
from vibe_jupyter.permissions.shell.read_only_commands import CommandCall

_ALONE: Final = ("--version",)
_PARENTS: Final = re.compile(r".+\^(@|-[0-9]*)")  # of a commit, or git refuses
_REVISION: Final = re.compile(r"\^?[\w./@{}^~+-]+(?:\.\.\.?[\w./@{}^~+-]*)?", re.ASCII)
_IN_INDEX: Final = re.compile(r"(?:[0-3]:)?([^/!^(].*)", re.DOTALL)  # in ``:path`` or ``:0:path``
_REFLOG_COMMANDS: Final = ("delete", "drop", "exists", "expire", "list", "write")
_PICKAXE: Final = ("-S", "-G")
_COUNTS: Final = ("-#", "-n", "--max-count", "--skip")
_EVERYTHING: Final = ("--all", "--branches", "--tags", "--remotes", "-g", "--walk-reflogs", "--boundary")
# Options that list the shown files by kind and name, for commits below a line with the id.
_NAMES: Final = (
    "--name-status",
    "-z",
    "--no-renames",
    "-l1000",
    "--no-color",
    "--no-relative",
    "--ignore-submodules=all",
)
_OF_COMMITS: Final = ("--format=tformat:+%H", "-m", "--root", *_NAMES)
# Settings of the user with which a file is followed to its earlier names, or files of submodules are shown.
_PLAINLY: Final = ("-c", "log.follow=false", "-c", "diff.submodule=short", "-c", "submodule.recurse=false")
_COPIES: Final = ("-C", "--find-copies")
_WHOLE_HISTORY: Final = ("--full-history", "--sparse")  # with these, pathspecs leave out no commits
_WITH_PASSWORD: Final = re.compile(r"://[^/\s]*@")
# Files in the home folder that may rewrite addresses (`insteadOf`).
_USER_SETTINGS: Final = (".gitconfig", ".config/git/config")
_EXCLUDING: Final = (":(exclude)", ":!", ":^", ":(top,exclude)", ":(exclude,top)", ":!/", ":^/", ":/!", ":/^")
_FROM_TOP: Final = (":/", ":(top)")
_WILD: Final = re.compile(r"[*?\[\\]")
SPECS_LIMIT: Final = 50  # pathspecs per command


def check_git(call: CommandCall) -> None:
    """Check a git command: the repository must name no program to run, and nothing protected may be shown."""
    guarded_git(call)


def guarded_git(call: CommandCall) -> GuardedGit:
    """Check a git command. Returns how it must be run.

    Raises:
        UnknownCommand: It isn't known to be read-only, or may show protected files.
    """
    arguments = list(call.arguments)
    found = frozenset(argument.text for argument in arguments if argument.from_glob)
    if any(text.startswith((":", "..")) for text in found):
        raise UnknownCommand("operand", "git may read a name that begins with : or .. in another way")
    as_written = GuardedGit(tuple(argument.text for argument in arguments), found=found)
    if as_written.given == _ALONE:
        return as_written
    operands = _global_options(arguments, call.operands)
    before = as_written.given[: len(as_written.given) - len(arguments)]
    name = _subcommand(arguments)
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
        return as_written
    behind = tuple(texts[divide + 1 :])
    guarded = _GitCall(name, sub, given, behind, operands, repository, home).check()
    if guarded is None:
        return as_written
    if not can_guard():
        raise UnknownCommand("place", f"git {name} may show files that usually hold passwords or keys")
    before = (*before, *_PLAINLY)
    return guarded._replace(
        given=as_written.given,
        found=found,
        run=(*before, *guarded.run),
        names=(*before, *LISTING, *guarded.names) if guarded.names else (),
        top=str(repository.root),
    )


def _subcommand(arguments: list[CommandArgument]) -> str:
    """Return the name of the subcommand, and remove its second word."""
    name = arguments[0].text if arguments else ""
    if name in ("stash", "remote", "worktree") and len(arguments) > 1 and not arguments[1].text.startswith("-"):
        return f"{name} {arguments.pop(1).text}"
    if name == "reflog" and len(arguments) > 1:
        if arguments[1].text in _REFLOG_COMMANDS:
            raise UnknownCommand("name", f"git reflog {arguments[1].text} is not known to be read-only")
        if arguments[1].text == "show":
            del arguments[1]
    return name


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
    behind: tuple[str, ...]  # arguments after `--`
    operands: Operands
    repository: Repository
    home: str

    def check(self) -> GuardedGit | None:
        """Check the command. Returns how it must be run, or None if as written."""
        given, sub = self.given, self.sub
        self.repository.check(self._repository_traits())
        if sub.needs and (given.operands or self.behind) and not given.has(*sub.needs):
            raise UnknownCommand("operand", f"git {self.name} with a name is not known to be read-only")
        if sub.most is not None and len(given.operands) + len(self.behind) > sub.most:
            raise UnknownCommand("operand", f"git {self.name} with so many names is not known to be read-only")
        if self.name in ("remote", "remote get-url"):
            self._check_addresses()
        if self.name == "grep":
            return self._guard_search()
        check = self._check_revision if sub.revisions else self._check_pathspec
        for operand in given.operands:
            check(operand.text)
        for path in self.behind:
            self._check_pathspec(path)
        if self.name == "blame":
            self._check_blamed()
        return self._guard_changes() if self.name == "show" or self._shows_content else None

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
            self._check_stored(text, revision, path)
        elif not _REVISION.fullmatch(text) or self.operands.exists(text):
            self._check_pathspec(text)

    def _check_stored(self, text: str, revision: str, path: str) -> None:
        """Check a file in a revision or in the index by its path from the top of the repository."""
        indexed = None if revision else _IN_INDEX.fullmatch(path)
        path = indexed[1] if indexed else path
        top = self.repository.root
        start = self.operands.here if path.startswith(("./", "../")) or path in (".", "..") else top
        inside = os.path.relpath(os.path.join(start, path), top)
        unclear = inside == ".." or inside.startswith("../") or path.startswith("/")
        if unclear or not (indexed or _REVISION.fullmatch(revision)):
            raise UnknownCommand("operand", f"it is unclear how git reads {text!r}")
        if inside != "." and self._project_prefix and not f"{inside}/".startswith(self._project_prefix):
            raise UnknownCommand("place", f"reads {inside}, which is outside the project")
        if why := protection_reason(inside.split("/"), "read"):
            raise UnknownCommand("place", f"reads {inside}, which {why}")
        if self.name in ("show", "diff"):
            raise UnknownCommand("operand", f"shows what {text} names, whatever file that was")

    @cached_property
    def _project_prefix(self) -> str:
        """Path of the project within the repository, with a trailing slash. '' unless it is a subfolder."""
        root, project = self.repository.root, self.operands.workspace.root
        return f"{project.relative_to(root)}/" if root in project.parents else ""

    def _check_pathspec(self, text: str) -> None:
        """Check that a path may be read. Files matched by a glob are left out by `git_guard` instead."""
        spec = _read_pathspec(text, self.operands.here, self.repository.root)
        if not spec.excludes and not spec.is_glob and self.sub.names_files:
            self.operands.path(str(self.repository.root / spec.path))

    def _check_blamed(self) -> None:
        operands = [operand.text for operand in self.given.operands]
        if revision := next((text for text in operands if not self.operands.exists(text)), None):
            raise UnknownCommand("operand", f"shows a file as it was in {revision}")

    def _check_addresses(self) -> None:
        """Refuse addresses with a password, since the command prints them."""
        texts = [f"{setting.part} {setting.value}" for setting in self.repository.settings]
        texts += [text_of(path) for name in _USER_SETTINGS if (path := Path(self.home, name)).is_file()]
        if any(map(_WITH_PASSWORD.search, texts)):
            raise UnknownCommand("place", "may show a password in the address of another repository")

    def _split_operands(self, operands: Sequence[str]) -> tuple[list[str], list[str]]:
        """Split the operands into revisions and paths, as git does where no name is both."""
        revisions: list[str] = []
        paths: list[str] = []
        for text in operands:
            if not paths and _REVISION.fullmatch(text) and not self.operands.exists(text):
                revisions.append(text)
            elif self.operands.exists(text) or _WILD.search(text):
                paths.append(text)
            else:
                raise UnknownCommand("operand", f"it is unclear how git reads {text!r}")
        return revisions, paths + list(self.behind)

    def _guard_changes(self) -> GuardedGit | None:
        given = self.given
        if self.name == "reflog" or given.has(*_EVERYTHING):
            raise UnknownCommand("place", f"git {self.name} would show what is in every branch")
        if self._shows_content and given.has("--follow"):
            raise UnknownCommand("place", f"git {self.name} --follow may show a file that was protected by its name")
        if self._shows_content and given.has(*_COPIES):  # twice, it compares with files that were not changed
            raise UnknownCommand("operand", f"git {self.name} -C may show a new file beside a protected one")
        revisions, paths = self._split_operands([operand.text for operand in given.operands])
        commits = list(map(_commits, revisions or ["HEAD"] * (self.name != "diff")))
        if not self._shows_content:
            return GuardedGit((), (self.name, *self._option_words(), *commits), tuple(paths))
        whole = _WHOLE_HISTORY if self.name != "diff" and not self._wants(paths) else ()
        run = (self.name, *self._option_words(), *whole, *commits)
        guarded = GuardedGit((), run, self._inside(paths))
        if self.name == "diff":
            kept = self._option_words(("--cached", "--staged", "--merge-base"))
            return guarded._replace(names=("diff", *kept, *commits, *_NAMES))
        if self.name == "show" and not given.has(*_COUNTS):  # with a number of commits, it lists them as log does
            return guarded._replace(names=("show", *commits, *_OF_COMMITS), form="commits")
        if whole and given.has(*_COUNTS) and not given.has(*NARROWING):
            ordered = ("--first-parent", "--topo-order", "--date-order", "--author-date-order")
            kept = self._option_words((*_COUNTS, *ordered))
            return guarded._replace(names=("log", *kept, *commits, *_OF_COMMITS), form="commits")
        listed = ("log", *commits, *_OF_COMMITS, "--full-history", "--full-diff")
        return guarded._replace(names=listed, names_in=guarded.paths if self._wants(paths) else (), form="commits")

    def _guard_search(self) -> GuardedGit:
        """Check ``git grep``, which searches the files of the index or of the given commits."""
        given = self.given
        operands = [operand.text for operand in given.operands]
        patterns = given.values("-e")
        if not patterns:
            if not operands:
                raise UnknownCommand("operand", "git grep has no pattern")
            if given.operands[0].from_glob:
                raise UnknownCommand("operand", "its pattern is a file name")
            patterns = [operands.pop(0)]
        if not given.has("-F", "--fixed-strings") and not all(map(is_safe_pattern, patterns)):
            raise UnknownCommand("operand", "its pattern may take very long")
        if any(":" in operand for operand in operands):
            raise UnknownCommand("operand", "it is unclear what git looks through here")
        revisions, paths = self._split_operands(operands)
        for path in paths:
            self._check_pathspec(path)
        asked = () if given.has("-e") else ("-e", patterns[0])
        # A line begins with the revision as it is given here, so none is taken that the list shows to be no commit.
        guarded = GuardedGit((), ("grep", *self._option_words(), *asked, *revisions), self._inside(paths))
        if revisions:
            names = ("log", *map(_commits, revisions), *_OF_COMMITS, "--full-history")
            return guarded._replace(names=names, form="commits")
        form = "index" if given.has("--cached") else "files"
        return guarded._replace(names=("ls-files", "-z", "--full-name"), names_in=(":/",), form=form)

    def _option_words(self, only: Sequence[str] = ()) -> list[str]:
        """Return the parsed options as words, or only those with these names."""
        words: list[str] = []
        for name, value in self.given.options:
            valued = name in self.sub.options.valued
            if only and name not in only:
                continue
            if name == "-#":
                words.append(f"-{value}")
            elif name.startswith("--"):
                words.append(f"{name}={value}" if value or valued else name)
            else:
                words += [name, ""] if valued and not value else [f"{name}{value}"]
        return words

    def _wants(self, paths: Sequence[str]) -> bool:
        return any(not text.startswith(_EXCLUDING) for text in paths)

    def _inside(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return pathspecs that keep a command inside the project.

        Raises:
            UnknownCommand: One may match files outside of it, or there are more than `SPECS_LIMIT`.
        """
        if len(paths) > SPECS_LIMIT:
            raise UnknownCommand("length", f"it holds more than {SPECS_LIMIT} paths")
        prefix = self._project_prefix
        for spec in (_read_pathspec(text, self.operands.here, self.repository.root) for text in paths):
            certain = _WILD.split(spec.path)[0] if spec.is_glob else f"{spec.path}/"
            if not spec.excludes and not certain.startswith(prefix):
                raise UnknownCommand("place", f"may show files outside the project: {spec.path}")
        if not prefix or self._wants(paths) or self.name == "grep":
            return tuple(paths)
        return (*paths, f":(top,literal){prefix}")


class _Pathspec(NamedTuple):
    path: str  # from the top of the repository
    excludes: bool
    is_glob: bool


def _read_pathspec(text: str, here: Path, top: Path) -> _Pathspec:
    """Read a pathspec as git does in the folder `here` of a repository whose top is `top`.

    Raises:
        UnknownCommand: Its meaning isn't known here.
    """
    rest, excludes, start = text, False, here
    for magic in sorted((*_EXCLUDING, *_FROM_TOP), key=len, reverse=True):
        if text.startswith(magic):
            excludes = magic in _EXCLUDING
            start = top if "/" in magic or "top" in magic else here
            rest = text.removeprefix(magic)
            break
    if rest.startswith(":"):
        raise UnknownCommand("operand", f"it is unclear how git reads {text!r}")
    inside = os.path.relpath(os.path.join(start, rest or "."), top)
    if inside == ".." or inside.startswith("../"):
        raise UnknownCommand("place", f"reads outside the repository: {text}")
    return _Pathspec(inside, excludes, _WILD.search(rest) is not None)


def _commits(text: str) -> str:
    """Return a revision or range that git takes for commits alone: a file's content has ids, and may have tags."""
    parts = re.split(r"(^\^|\.\.\.?)", text)
    plain = [not part or at % 2 or _PARENTS.fullmatch(part) for at, part in enumerate(parts)]
    return "".join(part if is_plain else f"{part}^{{commit}}" for part, is_plain in zip(parts, plain, strict=True))
