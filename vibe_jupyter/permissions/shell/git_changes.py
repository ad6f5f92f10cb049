"""Which files a look at changes would show, and which of them a command of git was asked for."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vibe_jupyter.files.protected import may_hold_secret_names, protection_reason
from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.git_objects import Commit, TreeEntry
from vibe_jupyter.permissions.shell.git_repository import Repository
from vibe_jupyter.permissions.shell.operands import Glob, plain_glob

COMMITS_LIMIT: Final = 80
"""Commits whose changes are looked at for one decision."""
STEPS_LIMIT: Final = 20_000
"""Entries of trees that are looked at for one decision."""
HIDDEN_LIMIT: Final = 2_000
"""Files of the index that are compared with the work tree for one decision."""

_EXCLUDING: Final = (":(exclude)", ":!", ":^", ":(top,exclude)", ":(exclude,top)", ":!/", ":^/", ":/!", ":/^")
_FROM_TOP: Final = (":/", ":(top)")
_WILD: Final = "*?[\\"
SPECS_LIMIT: Final = 50
"""Pathspecs of one command."""


@dataclass(frozen=True)
class _Spec:
    glob: Glob
    """From the top of the repository."""
    excludes: bool

    def covers(self, path: str) -> bool:
        """Whether it may be this path or lie below what is named."""
        if len(self.glob.texts) == 1:
            named = self.glob.texts[0]
            return named in ("", path) or path.startswith(f"{named}/")
        if self.excludes:
            return self.glob.exact and self.glob.matches(path)
        steps = path.split("/")
        return any(self.glob.matches("/".join(steps[:count])) for count in range(1, len(steps) + 1))


@dataclass(frozen=True)
class Pathspecs:
    """All that stands behind the options."""

    specs: tuple[_Spec, ...]

    def covers(self, path: str) -> bool:
        """Whether a file at this path, from the top of the repository, may be shown; true also in doubt."""
        wanted = [spec for spec in self.specs if not spec.excludes]
        if wanted and not any(spec.covers(path) for spec in wanted):
            return False
        return not any(spec.covers(path) for spec in self.specs if spec.excludes)

    def enters(self, folder: str) -> bool:
        """Whether something below a folder may be shown; true also in doubt."""
        inside = f"{folder}/"
        return self._is_open or any(
            named in ("", folder) or named.startswith(inside) or folder.startswith(f"{named}/")
            for spec in self.specs
            if not spec.excludes
            for named in spec.glob.texts[:1]
        )

    @property
    def plain_name(self) -> str | None:
        """What the only one names, from the top of the repository; None for globs, exceptions and several."""
        wanted = [spec for spec in self.specs if not spec.excludes and len(spec.glob.texts) == 1]
        return wanted[0].glob.texts[0] if len(self.specs) == len(wanted) == 1 else None

    @property
    def _is_open(self) -> bool:
        wanted = [spec for spec in self.specs if not spec.excludes]
        return not wanted or any(len(spec.glob.texts) > 1 for spec in wanted)


@dataclass
class Look:
    """A look at changes in a repository, as a project may have it."""

    repository: Repository
    project: Path
    specs: Pathspecs
    _steps: int = 0
    _trees: dict[str, Mapping[str, TreeEntry]] = field(default_factory=dict[str, Mapping[str, TreeEntry]])
    _commits: dict[str, Commit] = field(default_factory=dict[str, Commit])

    def refuse(self, shown: Iterable[str]) -> None:
        """Ask where something would be shown that nobody allowed.

        Raises:
            Refused: naming the first of these paths.
        """
        for path in shown:
            raise UnknownCommand("place", f"may show {path}, which {self.why_hidden(path)}")

    def why_hidden(self, path: str) -> str | None:
        """Why the content of a file is not shown unasked; None if it may be."""
        inside = self._project_prefix
        if inside and not path.startswith(inside):
            return "is outside the project"
        return protection_reason(path.split("/"), "read")

    @property
    def _project_prefix(self) -> str:
        """How the paths of the project begin; empty where the repository is all of it or a part."""
        root = self.repository.root
        if root in self.project.parents:
            return f"{self.project.relative_to(root)}/"
        return ""

    def _shows_path(self, path: str) -> bool:
        return self.specs.covers(path) and self.why_hidden(path) is not None

    def in_index(self) -> Iterator[str]:
        """The files of the index that are hidden."""
        places = self.repository.index.places
        if self._project_prefix or may_hold_secret_names("\n".join(places)):
            yield from (path for path in places if self._shows_path(path))

    def changed_in_work_tree(self) -> Iterator[str]:
        """The hidden files that are not as the index says."""
        index = self.repository.index
        for number, path in enumerate(self.in_index()):
            if number == HIDDEN_LIMIT:
                raise UnknownCommand("place", f"may show files outside the project, such as {path}")
            tracked = index.tracked(path)
            if tracked is None or not tracked.is_as_listed(self.repository.root, index.written):
                yield path

    def staged_against(self, tree: str | None) -> Iterator[str]:
        """The hidden files that the index and a tree do not have in common."""
        index = self.repository.index
        if tree is not None:
            yield from self._not_staged(tree, "")
        for path in self.in_index():
            tracked, entry = index.tracked(path), self._tree_entry(tree, path)
            if tracked is None or entry is None or entry.oid != tracked.oid or not tracked.plain:
                yield path

    def _not_staged(self, tree: str, folder: str) -> Iterator[str]:
        index = self.repository.index
        if index.trees.get(folder) == tree:
            return
        entries = self._read_tree(tree)
        self._spend_steps(len(entries))
        for name, entry in entries.items():
            path = f"{folder}{name}"
            if entry.is_folder:
                if self.specs.enters(path):
                    yield from self._not_staged(entry.oid, f"{path}/")
            elif self._shows_path(path) and path not in index.places:
                yield path

    def _tree_entry(self, tree: str | None, path: str) -> TreeEntry | None:
        entry = None
        for name in path.split("/"):
            if tree is None:
                return None
            entry = self._read_tree(tree).get(name)
            tree = entry.oid if entry is not None and entry.is_folder else None
        return entry

    def tree_of(self, revision: str) -> str | None:
        """The tree of a commit; None where the revision names nothing."""
        oid = self.repository.objects.resolve(revision)
        return None if oid is None else self._read_commit(oid).tree

    def between(self, one: str | None, other: str | None, folder: str = "") -> Iterator[str]:
        """The hidden files in which two trees differ."""
        if one == other:
            return
        old, new = (self._read_tree(tree) for tree in (one, other))
        self._spend_steps(len(old) + len(new))
        for name in old.keys() | new.keys():
            pair = old.get(name), new.get(name)
            if pair[0] == pair[1]:
                continue
            path = f"{folder}{name}"
            trees = [entry.oid if entry is not None and entry.is_folder else None for entry in pair]
            if any(trees) and self.specs.enters(path):
                yield from self.between(trees[0], trees[1], f"{path}/")
            if any(entry is not None and not entry.is_folder for entry in pair) and self._shows_path(path):
                yield path

    def in_commits(self, oids: Iterable[str]) -> Iterator[str]:
        """The hidden files that commits change."""
        for oid in oids:
            commit = self._read_commit(oid)
            for parent in commit.parents or (None,):
                yield from self.between(self._read_commit(parent).tree if parent else None, commit.tree)

    def history(self, starts: Iterable[str], until: Iterable[str] = (), most: int | None = None) -> list[str]:
        """The commits of which these are made, newest first; at least those that git would come by.

        Args:
            starts: where to begin.
            until: commits that are left out, with all before them.
            most: steps back, at most.

        Raises:
            Refused: there are more than can be looked at in a moment.
        """
        left_out = set(self._commits_before(until, COMMITS_LIMIT))
        found = self._commits_before((start for start in starts if start not in left_out), most, left_out)
        if len(found) > COMMITS_LIMIT:
            raise UnknownCommand("place", f"more than {COMMITS_LIMIT} commits would have to be looked through first")
        return found

    def merge_bases(self, one: str, other: str) -> list[str]:
        """The commits that two have in common, at least the best of them."""
        first = self.history([one])
        common = set(first) & set(self.history([other]))
        older = {parent for oid in common for parent in self._read_commit(oid).parents}
        return [oid for oid in first if oid in common and oid not in older]

    def _commits_before(self, starts: Iterable[str], most: int | None, left_out: Iterable[str] = ()) -> list[str]:
        frontier = list(dict.fromkeys(starts))
        passed = {*left_out, *frontier}
        found: list[str] = []
        steps = 0
        while frontier and (most is None or steps < most) and len(found) <= COMMITS_LIMIT:
            found += frontier
            frontier = list(dict.fromkeys(parent for oid in frontier for parent in self._read_commit(oid).parents))
            frontier = [oid for oid in frontier if oid not in passed]
            passed.update(frontier)
            steps += 1
        return found

    def _read_commit(self, oid: str) -> Commit:
        if oid not in self._commits:
            self._commits[oid] = self.repository.objects.commit(oid)
        return self._commits[oid]

    def _read_tree(self, oid: str | None) -> Mapping[str, TreeEntry]:
        """The entries of a tree; none where there is no tree."""
        if oid is None:
            return {}
        if oid not in self._trees:
            self._trees[oid] = self.repository.objects.tree(oid)
        return self._trees[oid]

    def _spend_steps(self, steps: int) -> None:
        self._steps += steps
        if self._steps > STEPS_LIMIT:
            raise UnknownCommand("repository", "more of its files would have to be looked through than takes a moment")


def pathspecs(texts: Iterable[str], here: Path, top: Path) -> Pathspecs:
    """Read pathspecs as git does in the folder `here` of a repository at `top`.

    Raises:
        Refused: one is of a form whose meaning is not known here.
    """
    specs = tuple(_spec(text, here, top) for text in texts)
    if len(specs) > SPECS_LIMIT:
        raise UnknownCommand("length", f"it holds more than {SPECS_LIMIT} paths")
    return Pathspecs(specs)


def _spec(text: str, here: Path, top: Path) -> _Spec:
    given, excludes, start = text, False, here
    for magic in sorted((*_EXCLUDING, *_FROM_TOP), key=len, reverse=True):
        if text.startswith(magic):
            excludes = magic in _EXCLUDING
            start = top if "/" in magic or "top" in magic else here
            text = text.removeprefix(magic)
            break
    if text.startswith(":"):
        raise UnknownCommand("operand", f"it is unclear how git reads {given!r}")
    inside = os.path.relpath(os.path.join(start, text or "."), top)
    if inside == ".." or inside.startswith("../"):
        raise UnknownCommand("place", f"reads outside the repository: {given}")
    glob = plain_glob("" if inside == "." else inside) if any(char in text for char in _WILD) else Glob((inside,))
    if glob is None:
        raise UnknownCommand("operand", f"it is unclear how git reads {given!r}")
    return _Spec(Glob(("",)) if inside == "." else glob, excludes)
