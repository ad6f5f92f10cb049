"""Determine which files a git command would show changes of, and match them against its pathspecs."""

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

COMMITS_LIMIT: Final = 80  # commits examined per decision
STEPS_LIMIT: Final = 20_000  # tree entries examined per decision
HIDDEN_LIMIT: Final = 2_000  # index entries compared with the work tree per decision

_EXCLUDING: Final = (":(exclude)", ":!", ":^", ":(top,exclude)", ":(exclude,top)", ":!/", ":^/", ":/!", ":/^")
_FROM_TOP: Final = (":/", ":(top)")
_WILD: Final = "*?[\\"
SPECS_LIMIT: Final = 50  # pathspecs per command


@dataclass(frozen=True)
class _Spec:
    glob: Glob  # relative to the top of the repository
    excludes: bool

    def covers(self, path: str) -> bool:
        """Return whether this path or a parent folder matches."""
        if len(self.glob.texts) == 1:
            named = self.glob.texts[0]
            return named in ("", path) or path.startswith(f"{named}/")
        if self.excludes:
            return self.glob.exact and self.glob.matches(path)
        steps = path.split("/")
        return any(self.glob.matches("/".join(steps[:count])) for count in range(1, len(steps) + 1))


@dataclass(frozen=True)
class Pathspecs:
    """All pathspecs of a command, including exclusions."""

    specs: tuple[_Spec, ...]

    def covers(self, path: str) -> bool:
        """Return whether a file may be shown, given its path from the top of the repository. True if in doubt."""
        wanted = [spec for spec in self.specs if not spec.excludes]
        if wanted and not any(spec.covers(path) for spec in wanted):
            return False
        return not any(spec.covers(path) for spec in self.specs if spec.excludes)

    def enters(self, folder: str) -> bool:
        """Return whether anything below a folder may be shown. True if in doubt."""
        inside = f"{folder}/"
        return self._is_open or any(
            named in ("", folder) or named.startswith(inside) or folder.startswith(f"{named}/")
            for spec in self.specs
            if not spec.excludes
            for named in spec.glob.texts[:1]
        )

    @property
    def plain_name(self) -> str | None:
        """Path of the only pathspec, from the top of the repository. None if there are others or it is a glob."""
        wanted = [spec for spec in self.specs if not spec.excludes and len(spec.glob.texts) == 1]
        return wanted[0].glob.texts[0] if len(self.specs) == len(wanted) == 1 else None

    @property
    def _is_open(self) -> bool:
        wanted = [spec for spec in self.specs if not spec.excludes]
        return not wanted or any(len(spec.glob.texts) > 1 for spec in wanted)


@dataclass
class Look:
    """A query for the files involved in a git command that the project may not read without asking ("hidden" files)."""

    repository: Repository
    project: Path
    specs: Pathspecs
    _steps: int = 0
    _trees: dict[str, Mapping[str, TreeEntry]] = field(default_factory=dict[str, Mapping[str, TreeEntry]])
    _commits: dict[str, Commit] = field(default_factory=dict[str, Commit])

    def refuse(self, shown: Iterable[str]) -> None:
        """Raise if any file would be shown.

        Args:
            shown: The hidden files to be shown.

        Raises:
            UnknownCommand: There is one. The message names the first.
        """
        for path in shown:
            raise UnknownCommand("place", f"may show {path}, which {self.why_hidden(path)}")

    def refuse_links(self) -> None:
        """Raise if a folder of the index is a link now: git would search what it leads to."""
        root = self.repository.root
        for folder in {path.rpartition("/")[0] for path in self.repository.index.places}:
            steps = folder.split("/")
            for place in ("/".join(steps[: count + 1]) for count in range(len(steps))):
                if self.specs.enters(place) and (root / place).is_symlink():
                    raise UnknownCommand("place", f"may look through {place}, which is a link")

    def why_hidden(self, path: str) -> str | None:
        """Return why the content of a file may not be shown without asking, or None if it may."""
        inside = self._project_prefix
        if inside and not path.startswith(inside):
            return "is outside the project"
        return protection_reason(path.split("/"), "read")

    @property
    def _project_prefix(self) -> str:
        """Path of the project within the repository, with a trailing slash. '' unless it is a subfolder."""
        root = self.repository.root
        if root in self.project.parents:
            return f"{self.project.relative_to(root)}/"
        return ""

    def _shows_path(self, path: str) -> bool:
        return self.specs.covers(path) and self.why_hidden(path) is not None

    def in_index(self) -> Iterator[str]:
        """Yield the hidden files in the index."""
        places = self.repository.index.places
        if self._project_prefix or may_hold_secret_names("\n".join(places)):
            yield from (path for path in places if self._shows_path(path))

    def changed_in_work_tree(self) -> Iterator[str]:
        """Yield the hidden files that differ between the index and the work tree."""
        index = self.repository.index
        for number, path in enumerate(self.in_index()):
            if number == HIDDEN_LIMIT:
                raise UnknownCommand("place", f"may show files outside the project, such as {path}")
            tracked = index.tracked(path)
            if tracked is None or not tracked.is_as_listed(self.repository.root, index.written):
                yield path

    def staged_against(self, tree: str | None) -> Iterator[str]:
        """Yield the hidden files that differ between the index and a tree."""
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
        """Return the tree of a commit, or None if the revision doesn't exist."""
        oid = self.repository.objects.resolve(revision)
        return None if oid is None else self._read_commit(oid).tree

    def between(self, one: str | None, other: str | None, folder: str = "") -> Iterator[str]:
        """Yield the hidden files that differ between two trees."""
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
        """Yield the hidden files that commits change."""
        for oid in oids:
            commit = self._read_commit(oid)
            for parent in commit.parents or (None,):
                yield from self.between(self._read_commit(parent).tree if parent else None, commit.tree)

    def history(self, starts: Iterable[str], until: Iterable[str] = (), most: int | None = None) -> list[str]:
        """Return the commits reachable from the given ones, newest first. May include more than git would visit.

        Args:
            starts: Commits to start from.
            until: Commits to exclude with their ancestors.
            most: Upper bound of the steps back.

        Raises:
            UnknownCommand: There are more than `COMMITS_LIMIT`.
        """
        left_out = set(self._commits_before(until, COMMITS_LIMIT))
        found = self._commits_before((start for start in starts if start not in left_out), most, left_out)
        if len(found) > COMMITS_LIMIT:
            raise UnknownCommand("place", f"more than {COMMITS_LIMIT} commits would have to be looked through first")
        return found

    def merge_bases(self, one: str, other: str) -> list[str]:
        """Return common ancestors of two commits, including the merge bases."""
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
        """Return the entries of a tree, or none if there is no tree."""
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
    """Parse pathspecs as git does in the folder `here` of a repository whose top is `top`.

    Raises:
        UnknownCommand: The meaning of one isn't known here.
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
