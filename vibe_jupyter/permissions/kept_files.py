"""Files in the user's folder with the permissions of a project and with trusted folders."""

import json

from pydantic import ConfigDict

from vibe_jupyter.protocol import LazyModel


class GrantFile(LazyModel):
    """Permissions of one project."""

    model_config = ConfigDict(extra="forbid")

    project: str
    allowed: dict[str, str] = {}  # pattern to the time of the grant


class TrustFile(LazyModel):
    """Folders that the user trusts or distrusts."""

    trusted: list[str] = []
    untrusted: list[str] = []
    content: dict[str, str] = {}  # folder to the digest of its content

    def knows(self, name: str) -> bool:
        """Return whether there is a decision about a folder."""
        return name in self.trusted or name in self.untrusted

    def forget(self, name: str) -> None:
        """Delete the decision about a folder."""
        self.trusted = [folder for folder in self.trusted if folder != name]
        self.untrusted = [folder for folder in self.untrusted if folder != name]
        self.content.pop(name, None)

    def text(self) -> str:
        """Serialize to TOML."""
        lists = {"trusted": self.trusted, "untrusted": self.untrusted}
        lines = [f"{key} = [{', '.join(map(_toml_string, folders))}]" for key, folders in lists.items()]
        lines += [
            "",
            "[content]",
            *(f"{_toml_string(key)} = {_toml_string(value)}" for key, value in self.content.items()),
        ]
        return "\n".join(lines) + "\n"


def _toml_string(text: str) -> str:
    """Format a TOML string. It is like JSON's, except that DEL must be escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
