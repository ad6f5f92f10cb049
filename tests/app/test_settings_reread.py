"""Settings are read again when something they are made of has changed, and never are they older than the files."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.conftest import Session
from tests.kernel.wire import WAIT
from vibe_jupyter.app.project import KernelSettings
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files import file_stamps
from vibe_jupyter.testing import say

OPENED = """
import sys
sys.modules["opened"] = opened = []
names = ("config.toml", ".env", ".mcp.json", "trusted_folders.toml")
sys.addaudithook(lambda name, args: name == "open" and str(args[0]).endswith(names) and opened.append(str(args[0])))
"""
SERVERS = '{"mcpServers": {"one": {"command": "no-such-program"}}}'


@pytest.fixture
def settings(tmp_path: Path) -> KernelSettings:
    """Of a person and a project who have none yet."""
    (tmp_path / "home").mkdir()
    (tmp_path / "project" / ".vibe" / "tools").mkdir(parents=True)
    return KernelSettings(tmp_path / "project", {"VIBE_HOME": str(tmp_path / "home")})


def own_file(settings: KernelSettings) -> Path:
    return Path(settings.environ["VIBE_HOME"], "config.toml")


def test_a_prompt_opens_no_file_of_settings_that_have_not_changed(session: Session) -> None:
    session.wire.run(f"exec({OPENED!r}, {{}})")
    end = time.monotonic() + WAIT
    opened = ["not asked yet"]
    while opened and time.monotonic() < end:  # a file that was just written is read again for two seconds
        session.wire.run("__import__('opened').clear()")
        session.model.will_reply(say("Hello."))
        session.run("%vibe hello")
        opened = session.wire.run("print(*__import__('opened'), sep='\\n')").text.split()
    assert opened == []
    config = session.folder / "vibe" / "config.toml"
    before = config.read_text(encoding="utf-8")
    try:
        for disabled in (["run_code"], ["grep", "todo"], []):
            config.write_text(f"disabled_tools = {disabled}\n{before}", encoding="utf-8")
            session.model.will_reply(say("Hello again."))
            session.run("%vibe again")
            offered = {tool["function"]["name"] for tool in session.model.requests[-1].body["tools"]}
            assert {"run_code", "grep", "todo"} - offered == set(disabled)
    finally:
        config.write_text(before, encoding="utf-8")


def test_edits_in_place_of_one_size_within_one_tick_of_the_clock_all_count(settings: KernelSettings) -> None:
    read: list[int] = []
    with own_file(settings).open("w", encoding="utf-8") as file:
        for turns in range(100, 200):
            file.seek(0)
            file.write(f"max_turns = {turns}\n")
            file.flush()
            read.append(settings.settings().max_turns)
    assert read == list(range(100, 200))


def replace_whole(settings: KernelSettings) -> None:
    """Another file of the same size and time."""
    path = own_file(settings)
    times = path.stat()
    other = path.with_name("other")
    other.write_text("max_turns = 43\n", encoding="utf-8")
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(path)


def remove_file(settings: KernelSettings) -> None:
    own_file(settings).unlink()


def set_variable(settings: KernelSettings) -> None:
    assert isinstance(settings.environ, dict)
    settings.environ["VIBE_MAX_TURNS"] = "43"


def write_beside(name: str, text: str) -> Callable[[KernelSettings], None]:
    def write(settings: KernelSettings) -> None:
        path = settings.project.folder / name
        path.write_text(text, encoding="utf-8")

    return write


def write_keys(settings: KernelSettings) -> None:
    own_file(settings).with_name(".env").write_text("VIBE_MAX_TURNS=43\n", encoding="utf-8")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(replace_whole, id="the file was replaced by one of the same size and time"),
        pytest.param(remove_file, id="the file was removed"),
        pytest.param(write_keys, id="a file of keys appeared"),
        pytest.param(set_variable, id="a variable was set"),
        pytest.param(write_beside(".vibe/config.toml", "max_turns = 41\n"), id="the project has settings"),
        pytest.param(write_beside(".mcp.json", SERVERS), id="the project has servers"),
    ],
)
def test_whatever_settings_are_made_of_counts_when_it_changes(
    settings: KernelSettings, change: Callable[[KernelSettings], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_stamps, "SETTLED", 0)
    own_file(settings).write_text("max_turns = 42\n", encoding="utf-8")
    before = settings.read()
    assert settings.read() is before
    change(settings)
    after = settings.read()
    assert (after.settings, after.warnings) != (before.settings, before.warnings)
    assert settings.read() is after


def test_the_answer_on_trust_and_a_change_of_what_was_trusted_count_at_once(
    settings: KernelSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_stamps, "SETTLED", 0)
    tool = settings.project.folder / ".vibe" / "tools" / "one.py"
    tool.write_text("1\n", encoding="utf-8")
    (tool.parents[1] / "config.toml").write_text('max_turns = 300\ntool_paths = ["more"]\n', encoding="utf-8")
    states = [settings.project.look().state]
    question = settings.project.look().question
    assert question is not None
    settings.project.answer(question, trusted=True)
    states.append(settings.project.look().state)
    assert settings.settings().max_turns == 300
    tool.write_text("2\n", encoding="utf-8")
    states.append(settings.project.look().state)
    assert settings.settings().max_turns != 300
    tool.write_text("1\n", encoding="utf-8")
    states.append(settings.project.look().state)
    (settings.project.folder / "more").mkdir()
    (settings.project.folder / "more" / "two.py").write_text("3\n", encoding="utf-8")
    states.append(settings.project.look().state)
    (settings.project.folder / "more" / "two.py").unlink()
    states.append(settings.project.look().state)
    settings.project.forget()
    states.append(settings.project.look().state)
    assert states == ["unknown", "trusted", "changed", "trusted", "changed", "trusted", "unknown"]


def test_an_agent_counts_as_soon_as_its_file_appears_changes_or_goes(
    settings: KernelSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_stamps, "SETTLED", 0)
    file = own_file(settings).parent / "agents" / "brief.toml"
    before = settings.current()
    assert settings.current() is before
    file.parent.mkdir()
    for words in ("short", "terse"):
        file.write_text(f'description = "{words}"\n', encoding="utf-8")
        found = settings.current("brief")
        assert found.profile.description == words
        assert settings.current("brief") is found
    file.unlink()
    with pytest.raises(ConfigError, match="no agent 'brief'"):
        settings.current("brief")


def test_a_wrong_setting_is_told_at_each_reading_until_it_is_right(settings: KernelSettings) -> None:
    own_file(settings).write_text('max_turns = "many"\n', encoding="utf-8")
    for _ in range(2):
        with pytest.raises(ConfigError, match="at max_turns: expected a whole number"):
            settings.read()
    own_file(settings).write_text("max_turns = 7\n", encoding="utf-8")
    assert settings.settings().max_turns == 7
