"""A user's folder and a project beside it."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from vibe_jupyter import config
from vibe_jupyter.config.loading import SettingsReading
from vibe_jupyter.config.toml_file import SettingNode, parse_toml


@dataclass
class Home:
    """What the layers are written to."""

    folder: Path
    environ: dict[str, str]

    @property
    def file(self) -> Path:
        return self.folder / "config.toml"

    def user(self, text: str) -> None:
        self.file.write_text(text, encoding="utf-8")

    def read(
        self, *, project: str = "", trusted: bool = True, profile: str = "", **flags: str | int
    ) -> SettingsReading:
        """All layers, the project's and the profile's given as text."""
        path = self.folder.parent / "project" / ".vibe" / "config.toml"
        file = config.ProjectFile(path, project, trusted) if project else None
        layer: SettingNode | None = parse_toml(profile, self.folder / "agents" / "x.toml", "agent") if profile else None
        return config.read_settings(self.environ, project=file, profile=layer, flags=dict(flags))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    folder = tmp_path / "home"
    folder.mkdir()
    return Home(folder, {"VIBE_HOME": str(folder)})
