"""Permissions for more than one call: for the session, or for this project."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pydantic import ValidationError

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files.plain_file import read_plain_file
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.permissions.kept_files import GrantFile

Scope = Literal["session", "project"]

# Tools that run arbitrary code. Grants for them never outlast the session, whatever a file contains.
NEVER_KEPT: Final = frozenset({"run_code", "run_cells", "run_cell", "verify_notebook", "bash"})

FOLDER_NAME: Final = "grants"  # in the user's folder; one file per project
FILE_LIMIT: Final = 1024 * 1024  # bytes of such a file
_NAME_LENGTH: Final = 32  # characters of the hash in a file name


class GrantStore:
    """Stored patterns of one project, shared by several kernels."""

    def __init__(self, folder: Path, project: Path) -> None:
        self.project = project
        name = hashlib.sha256(os.fsencode(project)).hexdigest()[:_NAME_LENGTH]
        self.path = folder / FOLDER_NAME / f"{name}.json"
        self._seen: tuple[object, Mapping[str, str]] = (None, {})

    def patterns(self) -> Mapping[str, str]:
        """Return the allowed patterns with the time of the grant. Changes by other kernels take effect immediately.

        Raises:
            ConfigError: the file is not valid.
        """
        mark = self._file_mark()
        if mark is None:
            return {}
        if self._seen[0] != mark:
            self._seen = (mark, self._read_file().allowed)
        return self._seen[1]

    def add(self, patterns: Iterable[str]) -> None:
        """Store patterns.

        Raises:
            ConfigError: the file is not valid. It is left unchanged.
            OSError: the file could not be written. It is left unchanged.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._change_file(lambda allowed: {**dict.fromkeys(patterns, now), **allowed})

    def remove(self, patterns: Iterable[str]) -> None:
        """Remove patterns.

        Raises:
            ConfigError: the file is not valid. It is left unchanged.
            OSError: the file could not be written. It is left unchanged.
        """
        gone = frozenset(patterns)
        self._change_file(lambda allowed: {pattern: at for pattern, at in allowed.items() if pattern not in gone})

    def _change_file(self, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        with without_working_folder():
            from vibe_jupyter.files.atomic_write import locked_file, replace_text  # noqa: PLC0415 - permanent grants are rare

        with locked_file(self.path):
            kept = self._read_file()
            allowed = change(kept.allowed)
            if allowed != kept.allowed:
                text = json.dumps({"project": str(self.project), "allowed": allowed}, ensure_ascii=False, indent=2)
                replace_text(self.path, f"{text}\n")

    def _file_mark(self) -> object:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    def _read_file(self) -> "GrantFile":
        with without_working_folder():
            from vibe_jupyter.permissions.kept_files import GrantFile  # noqa: PLC0415 - few projects have such a file

        try:
            return self._check_file(read_plain_file(self.path, FILE_LIMIT))
        except FileNotFoundError:
            return GrantFile(project=str(self.project))
        except OSError as error:
            raise ConfigError(
                f"Cannot read {self.path}: {error.strerror}. The permissions in it are not used."
            ) from error

    def _check_file(self, raw: bytes) -> "GrantFile":
        with without_working_folder():
            from vibe_jupyter.permissions.kept_files import GrantFile  # noqa: PLC0415 - few projects have such a file

        try:
            kept = GrantFile.model_validate_json(raw)
        except ValidationError as error:
            raise ConfigError(
                f"{self.path} does not hold the permissions of a project. Fix or delete it; until then nothing "
                "kept there is allowed."
            ) from error
        if kept.project != str(self.project):
            raise ConfigError(f"{self.path} belongs to another project. Delete it.")
        return kept


class Grants:
    """Granted patterns of both scopes.

    A pattern is a tool name, or one or more complete shell commands, matched literally.
    """

    def __init__(self, kept: GrantStore | None = None) -> None:
        self._kept = kept
        self._session: set[str] = set()

    def add(self, pattern: str, scope: Scope) -> Scope:
        """Grant a pattern and return the scope that was possible.

        A pattern that can't be stored is granted for the session.
        """
        patterns = _pattern_parts(pattern)
        if scope == "project" and self._kept is not None and not NEVER_KEPT.intersection(patterns):
            try:
                self._kept.add(patterns)
                return "project"
            except (OSError, ConfigError):
                pass
        self._session.update(patterns)
        return "session"

    def covers(self, pattern: str, *, keepable: bool) -> str:
        """Return which grant covers the whole pattern, as text, or "".

        Args:
            pattern: the call's `Ask.remember_as`.
            keepable: whether a project grant may cover this call.
        """
        granted = self._session | self._of_project() if keepable else self._session
        if not granted or not (patterns := _pattern_parts(pattern)) or not granted.issuperset(patterns):
            return ""
        return "allowed for this session" if self._session.issuperset(patterns) else "allowed for this project"

    def session(self) -> tuple[str, ...]:
        """Return the session's grants, sorted."""
        return tuple(sorted(self._session))

    def forget_session(self) -> None:
        """Revoke the session's grants."""
        self._session.clear()

    def forget_beginning(self, words: str) -> None:
        """Revoke the session's grants with this prefix, because these names now refer to something else."""
        self._session = {pattern for pattern in self._session if not pattern.startswith(words)}

    def numbered(self) -> list[tuple[Scope, str]]:
        """Return scope and pattern of all grants, in the order that `revoke` counts from 1."""
        out: list[tuple[Scope, str]] = [("session", pattern) for pattern in self.session()]
        return out + [("project", pattern) for pattern in sorted(self._of_project())]

    def listing(self) -> str:
        """Return a numbered list of grants for the user."""
        numbered = self.numbered()
        if not numbered:
            return f"Nothing is allowed in advance.{self._project_problem()}"
        titles = {"session": "Until this session ends:", "project": "For this project, in every session:"}
        lines: list[str] = []
        for number, (scope, pattern) in enumerate(numbered, 1):
            if titles.get(scope):
                lines.append(titles.pop(scope))
            lines.append(f"  {number}  {pattern}")
        lines.append("To revoke: %vibe permissions revoke NUMBER, or session, project, all.")
        if self._kept is not None and "project" not in titles:
            lines.append(f"Permissions for the project are kept in {self._kept.path}.")
        return "\n".join(lines) + self._project_problem()

    def revoke(self, words: str) -> str:
        """Revoke grants: numbers of the listing, ``session``, ``project``, ``all``, or a pattern.

        Raises:
            ConfigError: no grant matches, or the file can't be changed.
        """
        numbered = self.numbered()
        chosen = _chosen_grants(words.strip(), numbered)
        kept = [pattern for scope, pattern in chosen if scope == "project"]
        if kept and self._kept is not None:
            try:
                self._kept.remove(kept)
            except OSError as error:
                raise ConfigError(f"Cannot write {self._kept.path}: {error.strerror}. Nothing was revoked.") from error
        self._session.difference_update(pattern for scope, pattern in chosen if scope == "session")
        if not chosen:
            return "Nothing was allowed."
        return "Asked about again: " + ", ".join(dict.fromkeys(pattern for _, pattern in chosen)) + "."

    def _of_project(self) -> set[str]:
        if self._kept is None:
            return set()
        try:
            return set(self._kept.patterns()) - NEVER_KEPT
        except ConfigError:
            return set()

    def _project_problem(self) -> str:
        try:
            if self._kept is not None:
                self._kept.patterns()
        except ConfigError as error:
            return f"\n{error}"
        return ""


def _chosen_grants(words: str, numbered: Sequence[tuple[Scope, str]]) -> list[tuple[Scope, str]]:
    if words in ("all", "session", "project"):
        return [entry for entry in numbered if words in ("all", entry[0])]
    named = [entry for entry in numbered if entry[1] == words]
    numbers = words.replace(",", " ").split()
    if not named and all(number.isascii() and number.isdigit() for number in numbers):
        named = [numbered[int(number) - 1] for number in numbers if 0 < int(number) <= len(numbered)]
        named = named if len(named) == len(numbers) else []
    if not named:
        none = f"No permission is called {words!r}." if words else "What should be revoked?"
        raise ConfigError(
            f"{none} %vibe permissions lists it with numbers; then "
            "%vibe permissions revoke NUMBER, or session, project, all."
        )
    return named


def _pattern_parts(pattern: str) -> Sequence[str]:
    with without_working_folder():
        from vibe_jupyter.permissions.shell.patterns import pattern_parts  # noqa: PLC0415 - imported with the first call

    return pattern_parts(pattern)
