"""Which folders the person trusts, and with what in them (security C12).

Trust is given to a folder as it is: to the content of everything that would be loaded or run. When that has changed it
is asked for again.
"""

import json
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ValidationError

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.tools.own_file import locked, replace_text

FILE_NAME: Final = "trusted_folders.toml"
"""In the person's folder; the lists in it are Mistral Vibe's own."""

State = Literal["trusted", "untrusted", "changed", "unknown"]
"""``changed``: it was decided for another content."""


@dataclass(frozen=True)
class TrustQuestion:
    """What the person is asked before anything of a folder is loaded."""

    folder: Path
    brings: tuple[str, ...]
    """A line for each thing it would bring."""
    digest: str
    changed: bool
    """Whether it was decided before, for another content."""


class TrustedFolders:
    """The person's decisions, in a file that other kernels use too."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE_NAME

    def state(self, folder: Path, digest: str) -> State:
        """What was decided of a folder with this content.

        Raises:
            ConfigError: the file cannot be read.
        """
        kept, name = self._read(), str(folder)
        if kept.content.get(name, digest) != digest or not kept.knows(name):
            return "changed" if kept.knows(name) else "unknown"
        if name in kept.untrusted:
            return "untrusted"
        # Another program's word for the folder says nothing of what is in it now.
        return "trusted" if name in kept.content else "changed"

    def remember(self, folder: Path, digest: str, *, trusted: bool) -> None:
        """Keep a decision.

        Raises:
            ConfigError: it cannot be written.
        """
        with self._changing() as kept:
            kept.forget(str(folder))
            (kept.trusted if trusted else kept.untrusted).append(str(folder))
            kept.content[str(folder)] = digest

    def forget(self, folder: Path) -> bool:
        """Take a decision back, so that it is asked for again; whether there was one.

        Raises:
            ConfigError: it cannot be written.
        """
        with self._changing() as kept:
            known = kept.knows(str(folder))
            kept.forget(str(folder))
        return known

    def _read(self) -> "_Kept":
        try:
            return _Kept.model_validate(tomllib.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return _Kept()
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
            raise ConfigError(f"Cannot read {self._path}: {error}. Mend or remove it, then run again.") from error

    @contextmanager
    def _changing(self) -> "Generator[_Kept]":
        try:
            with locked(self._path):
                kept = self._read()
                yield kept
                replace_text(self._path, kept.text())
        except OSError as error:
            raise ConfigError(f"The decision cannot be kept in {self._path}: {error}.") from error


class _Kept(BaseModel):
    """The file."""

    trusted: list[str] = []
    untrusted: list[str] = []
    content: dict[str, str] = {}
    """Folder to the digest of what it held."""

    def knows(self, name: str) -> bool:
        return name in self.trusted or name in self.untrusted

    def forget(self, name: str) -> None:
        self.trusted = [folder for folder in self.trusted if folder != name]
        self.untrusted = [folder for folder in self.untrusted if folder != name]
        self.content.pop(name, None)

    def text(self) -> str:
        lists = {"trusted": self.trusted, "untrusted": self.untrusted}
        lines = [f"{key} = [{', '.join(map(_quoted, folders))}]" for key, folders in lists.items()]
        lines += ["", "[content]", *(f"{_quoted(key)} = {_quoted(value)}" for key, value in self.content.items())]
        return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A TOML string: JSON's, but for the one character JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
