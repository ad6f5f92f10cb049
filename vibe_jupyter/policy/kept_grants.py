"""What the person allowed for one project, kept in their own folder and never in the project (security C8)."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.tools.own_file import locked, replace_text

FOLDER_NAME: Final = "grants"
"""Below the person's folder; one file for each project."""
FILE_LIMIT: Final = 1024 * 1024
"""Bytes of such a file."""
_NAME_LENGTH: Final = 32
"""Characters of the hash that a file is named by."""


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid")

    project: str
    allowed: dict[str, str] = {}
    """Pattern to the time it was allowed at."""


class KeptGrants:
    """The patterns of one project. Several kernels may use them at once."""

    def __init__(self, folder: Path, project: Path) -> None:
        self.project = project
        name = hashlib.sha256(os.fsencode(project)).hexdigest()[:_NAME_LENGTH]
        self.path = folder / FOLDER_NAME / f"{name}.json"
        self._seen: tuple[object, Mapping[str, str]] = (None, {})

    def patterns(self) -> Mapping[str, str]:
        """What is allowed, with the time since when; what another kernel changed counts at once.

        Raises:
            ConfigError: the file is not one of ours.
        """
        mark = self._mark()
        if mark is None:
            return {}
        if self._seen[0] != mark:
            self._seen = (mark, self._read().allowed)
        return self._seen[1]

    def add(self, patterns: Iterable[str]) -> None:
        """Keep these.

        Raises:
            ConfigError: the file is not one of ours; it is left as it is.
            OSError: it could not be written; what it held is untouched.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._change(lambda allowed: {**dict.fromkeys(patterns, now), **allowed})

    def remove(self, patterns: Iterable[str]) -> None:
        """Take these back.

        Raises:
            ConfigError: the file is not one of ours; it is left as it is.
            OSError: it could not be written; what it held is untouched.
        """
        gone = frozenset(patterns)
        self._change(lambda allowed: {pattern: at for pattern, at in allowed.items() if pattern not in gone})

    def _change(self, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        with locked(self.path):
            kept = self._read()
            allowed = change(kept.allowed)
            if allowed != kept.allowed:
                text = json.dumps({"project": str(self.project), "allowed": allowed}, ensure_ascii=False, indent=2)
                replace_text(self.path, f"{text}\n")

    def _mark(self) -> object:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    def _read(self) -> _Kept:
        try:
            with open(self.path, "rb") as file:
                return self._checked(file.read(FILE_LIMIT + 1))
        except FileNotFoundError:
            return _Kept(project=str(self.project))
        except OSError as error:
            raise ConfigError(f"Cannot read {self.path}: {error.strerror}. Nothing kept there is allowed.") from error

    def _checked(self, raw: bytes) -> _Kept:
        try:
            kept = _Kept.model_validate_json(raw)
        except ValidationError as error:
            raise ConfigError(
                f"{self.path} does not hold what was allowed for a project. Mend or delete it; until then nothing "
                "kept there is allowed."
            ) from error
        if len(raw) > FILE_LIMIT or kept.project != str(self.project):
            raise ConfigError(f"{self.path} belongs to another project or is too large. Delete it.")
        return kept
