"""The files in the user's folder that say what is allowed in a project, and which folders are trusted."""

import json

from pydantic import ConfigDict

from vibe_jupyter.protocol import LazyModel


class GrantFile(LazyModel):
    """What may run unasked in one project."""

    model_config = ConfigDict(extra="forbid")

    project: str
    allowed: dict[str, str] = {}
    """Pattern to the time it was allowed at."""


class TrustFile(LazyModel):
    """Which folders the user trusts."""

    trusted: list[str] = []
    untrusted: list[str] = []
    content: dict[str, str] = {}
    """Folder to the digest of what it held."""

    def knows(self, name: str) -> bool:
        """Whether anything was decided of a folder."""
        return name in self.trusted or name in self.untrusted

    def forget(self, name: str) -> None:
        """Take out what was decided."""
        self.trusted = [folder for folder in self.trusted if folder != name]
        self.untrusted = [folder for folder in self.untrusted if folder != name]
        self.content.pop(name, None)

    def text(self) -> str:
        """As TOML."""
        lists = {"trusted": self.trusted, "untrusted": self.untrusted}
        lines = [f"{key} = [{', '.join(map(_toml_string, folders))}]" for key, folders in lists.items()]
        lines += [
            "",
            "[content]",
            *(f"{_toml_string(key)} = {_toml_string(value)}" for key, value in self.content.items()),
        ]
        return "\n".join(lines) + "\n"


def _toml_string(text: str) -> str:
    """A TOML string: JSON's, but for the one character JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
