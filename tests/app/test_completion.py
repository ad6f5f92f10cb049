"""Tab in a prompt, asked of a real kernel as a front end asks: text before and after, whole cell and cursor."""

import shutil
from collections.abc import Iterator

import pytest

from tests.app.conftest import Session
from tests.kernel.wire import WAIT
from vibe_jupyter.options import OPTION_NAMES
from vibe_jupyter.skills.discovery import shipped_skills

pytestmark = pytest.mark.xdist_group("app")


@pytest.fixture(params=["jedi", "no jedi"])
def tab(request: pytest.FixtureRequest, session: Session) -> "Iterator[Tab]":
    session.run(f"%config IPCompleter.use_jedi = {request.param == 'jedi'}")
    yield Tab(session)
    session.run("%config IPCompleter.use_jedi = True")


class Tab:
    """The Tab key."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def __call__(self, before: str, after: str = "") -> list[str]:
        """What the cell's text before the cursor may become, from the last space or line break on."""
        client = self.session.wire.client
        request = client.complete(before + after, len(before))
        while (message := client.get_shell_msg(timeout=WAIT))["parent_header"]["msg_id"] != request:
            pass
        content = message["content"]
        assert content["status"] == "ok"
        assert content["cursor_end"] == len(before) or not content["matches"]
        kept = before[: content["cursor_start"]]
        start = max(kept.rfind(" "), kept.rfind("\n")) + 1
        return [kept[start:] + match for match in content["matches"]]


def test_tab_after_vibe_offers_the_sub_commands(tab: Tab) -> None:
    assert tab("%vibe ") == [
        "agent",
        "autoload",
        "compact",
        "config",
        "context",
        "delete",
        "export",
        "fix",
        "fork",
        "help",
        "history",
        "mcp",
        "model",
        "permissions",
        "prompt",
        "rename",
        "report",
        "reset",
        "resume",
        "sent",
        "serve",
        "sessions",
        "setup",
        "skills",
        "status",
        "stop",
        "trust",
        "undo",
        "verify",
    ]
    assert tab("%vibe st") == ["status", "stop"]
    assert tab("x = 1\n%vibe he", "\ny = 2") == ["help"]


def test_tab_offers_options_also_on_the_first_line_of_a_cell(tab: Tab) -> None:
    assert tab("%vibe --m") == ["--model", "--max-turns", "--max-price", "--max-tokens", "--max-seconds"]
    assert tab("%%vibe --", "\nhello") == [*OPTION_NAMES]
    assert tab("%%vibe --model scripted --a", "\nhello") == ["--agent"]


def test_tab_offers_the_configured_models_and_the_tour(tab: Tab) -> None:
    assert tab("%vibe model ")[0] == "scripted"
    assert tab("%vibe model to") == ["tour"]
    assert tab("%%vibe --model scr", "\nhello") == ["scripted"]
    assert tab("%%vibe --model=scr", "\nhello") == ["--model=scripted"]


def test_tab_offers_agents_and_tools_one_after_the_other(tab: Tab) -> None:
    assert tab("%%vibe --agent ", "\nhello") == ["accept-edits", "auto-approve", "default", "plan"]
    assert tab("%%vibe --yes=run_co", "\nhello") == ["--yes=run_code"]
    assert tab("%%vibe --yes=run_code,read_f", "\nhello") == ["--yes=run_code,read_file"]


def test_tab_after_a_slash_offers_the_skills_that_are_commands(tab: Tab) -> None:
    skills = [f"/{skill.name}" for skill in shipped_skills()]
    assert tab("%vibe /") == tab("%%vibe --model scripted /", "\nhello") == tab("%%vibe\n/") == skills
    assert tab("%vibe /find") == ["/find-leakage"]
    assert "/find-leakage" not in tab("%%vibe\nplease /find")
    quiet = tab.session.folder / "vibe" / "skills" / "quiet" / "SKILL.md"
    quiet.parent.mkdir(parents=True)
    quiet.write_text("---\nname: quiet\ndescription: d\nuser-invocable: false\n---\n", encoding="utf-8")
    assert tab("%vibe /") == skills
    shutil.rmtree(quiet.parents[1])


@pytest.mark.requirement("magics.completion.paths")
def test_tab_after_an_at_sign_offers_variables_and_files(tab: Tab) -> None:
    (tab.session.folder / "penguins raw.csv").touch()
    (tab.session.folder / "penguins.csv").touch()
    (tab.session.folder / "penguin_data").mkdir(exist_ok=True)
    (tab.session.folder / "penguin_data" / "june.csv").touch()
    tab.session.run("penguins, _penguins = 1, 2")
    expected = ["@penguins", "@penguin_data/", "@penguins.csv"]
    assert tab("%%vibe\nplot @pen") == expected
    assert tab("%%vibe\nfirst line\nplot (@PEN", " by month\nlast line") == [f"({name}" for name in expected]
    assert tab("%vibe plot @pen") == expected
    assert tab("%%vibe compare @pen", "\nmore") == expected
    assert tab("%%vibe\nplot @penguin_data/") == ["@penguin_data/june.csv"]
    assert [one.rpartition(" ")[2] for one in tab('%%vibe\nplot @"penguins r')] == ['raw.csv"']
    assert "@penguins" in tab("%%vibe\nplot @")


def test_tab_after_an_at_sign_offers_the_numbers_of_cells_that_ran_the_newest_first(tab: Tab) -> None:
    tab.session.run("first_of_two = 1")
    tab.session.run("second_of_two = 2")
    tab.session.run("first_of_two = 1")
    newest, next_one, *older = tab("%%vibe\nplot @[")
    assert int(newest.strip("@[]")) == int(next_one.strip("@[]")) + 1
    assert f"@[{int(next_one.strip('@[]')) - 1}]" not in older
    assert tab(f"%%vibe\nplot {newest[:-1]}") == [newest]
    assert newest in tab("%%vibe\nplot @")
    assert tab("x = {}\nx[") != [newest]


def test_paths_begin_at_the_folder_the_agent_began_in(tab: Tab) -> None:
    (tab.session.folder / "deep").mkdir(exist_ok=True)
    (tab.session.folder / "deep" / "inner.txt").touch()
    tab.session.run("%vibe status")
    tab.session.run("import os; os.chdir('deep')")
    try:
        assert "@deep/" in tab("%vibe read @")
        assert "@inner.txt" not in tab("%vibe read @")
    finally:
        tab.session.run("os.chdir('..')")


def test_tab_offers_neither_hidden_files_nor_keys(tab: Tab) -> None:
    for name in (".env", "server.key", "notes.txt"):
        (tab.session.folder / name).touch()
    offered = tab("%%vibe\nread @")
    assert "@notes.txt" in offered
    assert not {"@.env", "@server.key"} & set(offered)


@pytest.mark.parametrize("tab", ["no jedi"], indirect=True)  # jedi takes its time for its first look at a namespace
def test_code_is_completed_as_ever(tab: Tab) -> None:
    tab.session.run("penguins = 1")
    assert tab("@pen") != ["@penguins", "@penguins.csv"]
    assert tab("pengui") == ["penguins"]
    assert not [one for one in tab("%%vibe\n```\n@penguin_d") if "penguin_data" in one]
    assert not [one for one in tab("%%vibe\nmail me@penguin_d") if "penguin_data" in one]


def test_settings_that_cannot_be_read_leave_tab_quiet(tab: Tab) -> None:
    config = tab.session.folder / "vibe" / "config.toml"
    kept = config.read_text(encoding="utf-8")
    config.write_text("not toml", encoding="utf-8")
    try:
        assert tab("%vibe model ") == ["tour", "check"]
    finally:
        config.write_text(kept, encoding="utf-8")


def test_unloading_takes_completion_away_and_loading_twice_offers_everything_once(tab: Tab) -> None:
    tab.session.run("%reload_ext vibe_jupyter")
    assert tab("%vibe st") == ["status", "stop"]
    tab.session.run("%unload_ext vibe_jupyter")
    assert "stop" not in tab("%vibe sto")
    tab.session.run("%load_ext vibe_jupyter")
    assert tab("%vibe sto") == ["stop"]
