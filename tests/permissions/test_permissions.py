"""Which calls run, ask or do not run."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.permissions.rules import ToolLists
from vibe_jupyter.protocol import Allow, Ask, Deny, Headline, Level, Preview, Resource, ToolResult
from vibe_jupyter.skills.skill import Skill, SkillsInUse
from vibe_jupyter.tools.bash import BashArgs, BashTool, ShellEnvironment
from vibe_jupyter.tools.contract import NotExplored, Tool, ToolContext
from vibe_jupyter.tools.process import FinishedCommand, ShellCommand


class PathArguments(BaseModel):
    path: str


class Reader(Tool[PathArguments]):
    """A tool that touches the path it is given."""

    name = "reader"
    description = "Reads."
    arguments = PathArguments

    def __init__(self, level: Level = "always") -> None:
        self.level: Level = level

    def headline(self, args: PathArguments) -> Headline:
        return Headline(verb="Read", doing="Reading", asking="Read", target=args.path)

    def preview(self, args: PathArguments) -> Preview:
        return Preview(kind="text", text=args.path)

    def touches(self, args: PathArguments) -> Sequence[Resource]:
        return [Resource(kind="path", value=args.path, access="read")]

    async def run(self, args: PathArguments, context: ToolContext) -> ToolResult:
        raise NotImplementedError


class RenamedReader(Reader):
    """The same under other names, one of which another tool has too."""

    others = ("former_reader",)
    unclear = ("unclear_reader",)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.csv").write_text("x\n1\n")
    (project / ".env").write_text("KEY=secret\n")
    (tmp_path / "outside.csv").write_text("x\n")
    return project


@pytest.fixture
def permissions(project: Path) -> Permissions:
    return Permissions(Workspace(project))


def decide(permissions: Permissions, path: str, terms: RunTerms | None = None, level: Level = "always") -> object:
    return permissions.decide(Reader(level), PathArguments(path=path), terms or RunTerms())


@pytest.mark.requirement("tools.read_file.permission.default")
def test_reading_inside_the_project_is_allowed_and_a_protected_file_asks(permissions: Permissions) -> None:
    assert isinstance(decide(permissions, "a.csv"), Allow)
    ask = decide(permissions, ".env")
    assert isinstance(ask, Ask)
    assert ".env" in ask.reason


@pytest.mark.parametrize("path", ["../outside.csv", "/etc/hostname", "~/x"])
def test_outside_the_project_only_a_single_approval_is_offered(permissions: Permissions, path: str) -> None:
    ask = decide(permissions, path)
    assert isinstance(ask, Ask)
    assert ask.reason.startswith("reads outside the project: /")
    assert ask.remember_as is None


def test_neither_a_grant_nor_the_yes_option_covers_outside_places(permissions: Permissions) -> None:
    permissions.grant("reader")
    terms = RunTerms(allowed=frozenset({"reader"}))
    assert isinstance(decide(permissions, "../outside.csv", terms), Ask)
    assert isinstance(decide(permissions, ".env", terms), Ask)
    assert isinstance(decide(permissions, "a.csv", terms, "ask"), Allow)


def test_a_path_that_leads_nowhere_is_denied_with_the_reason(permissions: Permissions) -> None:
    assert isinstance(decide(permissions, "a\0b"), Deny)


def test_the_configured_level_wins_over_the_tools_own(permissions: Permissions) -> None:
    permissions.levels = {"reader": "never"}
    assert isinstance(decide(permissions, "a.csv"), Deny)
    permissions.levels = {"reader": "ask"}
    assert isinstance(decide(permissions, "a.csv"), Ask)


def test_a_forgotten_grant_asks_again(permissions: Permissions) -> None:
    permissions.grant("reader")
    assert isinstance(decide(permissions, "a.csv", level="ask"), Allow)
    permissions.forget()
    assert isinstance(decide(permissions, "a.csv", level="ask"), Ask)


class Aliased(Reader):
    """A tool that settings may name in other ways too."""

    others = ("reads",)
    unclear = ("read",)


@pytest.mark.parametrize("named", ["reader", "reads", "read"])
def test_what_a_profile_forbids_no_allowlist_allows_whatever_name_it_uses(permissions: Permissions, named: str) -> None:
    permissions.lists = {"reader": ToolLists(allow=("*",))}
    terms = RunTerms(levels={named: "never"})
    assert isinstance(permissions.decide(Aliased("ask"), PathArguments(path="a.csv"), RunTerms()), Allow)
    assert isinstance(permissions.decide(Aliased("ask"), PathArguments(path="a.csv"), terms), Deny)


def test_a_call_of_an_external_client_asks_too_and_is_denied_where_nobody_is_here(permissions: Permissions) -> None:
    assert isinstance(decide(permissions, "a.csv", RunTerms(external=True), "ask"), Ask)
    refused = decide(permissions, "a.csv", RunTerms(external=True, attended=False), "ask")
    assert isinstance(refused, Deny)
    assert "serve the notebook again" in refused.reason
    assert "--yes" not in refused.reason


class NamedTwice(Reader):
    """A tool that also goes by a name of its own, and by one that another tool has too."""

    others = ("files_reader",)
    unclear = ("any_reader",)


def test_a_name_that_may_mean_another_tool_too_forbids_a_tool_and_allows_none(project: Path) -> None:
    def decided(name: str, level: Level) -> object:
        permissions = Permissions(Workspace(project), levels={name: level})
        return permissions.decide(NamedTwice("ask"), PathArguments(path="a.csv"), RunTerms())

    assert isinstance(decided("files_reader", "always"), Allow)
    assert isinstance(decided("any_reader", "always"), Ask)
    assert isinstance(decided("any_reader", "never"), Deny)


class TwoPaths(PathArguments):
    other: str


class Comparer(Reader):
    """A tool that touches two files."""

    arguments = TwoPaths

    def touches(self, args: PathArguments) -> Sequence[Resource]:
        assert isinstance(args, TwoPaths)
        return [Resource(kind="path", value=one, access="read") for one in (args.path, args.other)]


def test_an_allowlist_lets_a_call_through_that_names_nothing_beside_it(project: Path) -> None:
    (project / "b.csv").write_text("x\n2\n")
    permissions = Permissions(Workspace(project), lists={"reader": ToolLists(allow=("a.*", "b.csv"))})
    both = permissions.decide(Comparer("ask"), TwoPaths(path="a.csv", other="b.csv"), RunTerms())
    assert isinstance(both, Allow)
    permissions.lists = {"reader": ToolLists(allow=("a.*",))}
    one = permissions.decide(Comparer("ask"), TwoPaths(path="a.csv", other="b.csv"), RunTerms())
    assert isinstance(one, Ask)


@pytest.mark.parametrize("level", ["always", "ask", "never"])
@pytest.mark.parametrize("path", ["a.csv", ".env", "../outside.csv"])
def test_a_skill_in_use_takes_away_and_never_allows(permissions: Permissions, path: str, level: Level) -> None:
    for terms in (
        RunTerms(),
        RunTerms(attended=False),
        RunTerms(allowed=frozenset({"reader"})),
        RunTerms(approve_all=True),
        RunTerms(levels={"reader": "always"}),
    ):
        without = decide(permissions, path, terms, level)
        for allowed in ("reader", "*", "Reader(a.csv)"):
            in_use = SkillsInUse().having(skill_allowing(allowed), [])
            barring = terms._replace(bars=lambda names, in_use=in_use: in_use.why_barred(names, []))
            assert decide(permissions, path, barring, level) == without
        in_use = SkillsInUse().having(skill_allowing("grep"), []).having(skill_allowing("reader", "second"), [])
        barring = terms._replace(bars=lambda names, in_use=in_use: in_use.why_barred(names, []))
        denied = decide(permissions, path, barring, level)
        assert denied == Deny(reason="Not run: the skill one is in use until this run ends, and allows only grep.")


def skill_allowing(tools: str, name: str = "one") -> Skill:
    return Skill(name, "Does it.", Path(name, "SKILL.md"), "", allowed_tools=(tools,))


class Explorer(Reader):
    """A tool that does some calls where they have no effects."""

    name = "explorer"

    tried_in = "a copy"

    def can_explore(self, args: PathArguments) -> bool:
        return args.path != "kept"

    async def explore(self, args: PathArguments, context: ToolContext) -> ToolResult | NotExplored:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("changes", "path", "terms", "explores"),
    [
        ({}, "a.csv", RunTerms(), True),
        ({}, "a.csv", RunTerms(attended=False), True),
        ({"explore": False}, "a.csv", RunTerms(), False),
        ({}, "kept", RunTerms(), False),
        ({}, "a.csv", RunTerms(external=True), False),
        ({"levels": {"explorer": "ask"}}, "a.csv", RunTerms(), False),
        ({"levels": {"inspect": "ask"}}, "a.csv", RunTerms(), False),
        ({"levels": {"read_file": "never"}}, "a.csv", RunTerms(), False),
        ({}, "a.csv", RunTerms(levels={"grep": "ask"}), False),
        ({"lists": {"read_file": ToolLists(deny=("*.csv",))}}, "a.csv", RunTerms(), False),
    ],
)
def test_a_call_is_tried_unasked_only_where_reading_needs_nobody(
    permissions: Permissions, changes: dict[str, Any], path: str, terms: RunTerms, explores: bool
) -> None:
    rules = replace(permissions, **{"explore": True, **changes})
    assert rules.explores(Explorer("ask"), PathArguments(path=path), terms) is explores
    assert not rules.explores(Reader("ask"), PathArguments(path=path), terms)


class Sandbox:
    """Where commands could run unasked."""

    async def run(self, command: ShellCommand, progress: Callable[[str], None]) -> FinishedCommand | NotExplored:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("changes", "command", "explores"),
    [
        ({}, "pytest -q", True),
        ({"lists": {"bash": ToolLists(allow=("npm test",))}}, "pytest -q", True),
        ({"lists": {"bash": ToolLists(deny=("npm *",))}}, "pytest -q", False),
        ({"levels": {"bash": "ask"}}, "pytest -q", False),
        ({}, "python /elsewhere/x.py", False),
        ({}, "rm -rf build", False),
        ({}, "git push", False),
        ({}, "python x.py .env", False),
    ],
)
def test_a_command_is_tried_unasked_unless_it_names_what_is_asked_about_each_time(
    permissions: Permissions, changes: dict[str, Any], command: str, explores: bool
) -> None:
    tool = BashTool(ShellEnvironment(permissions.workspace, {}, {}))
    tool.sandbox = Sandbox()
    rules = replace(permissions, **{"explore": True, **changes})
    assert rules.explores(tool, BashArgs(command=command), RunTerms()) is explores
    assert not rules.explores(tool, BashArgs(command=command, background=True), RunTerms())


@pytest.mark.requirement("config.guards.outside")
@pytest.mark.parametrize(
    ("outside", "is_denied"),
    [
        ({}, False),
        ({"*": True}, True),
        ({"*": True, "writer": False}, True),
        ({"*": True, "reader": False}, False),
        ({"*": True, "former_reader": False}, False),
        ({"*": False, "reader": True}, True),
        ({"former_reader": True}, True),
        ({"reader": False, "former_reader": True}, True),
        ({"reader": True, "former_reader": False}, True),
        ({"reader": False, "unclear_reader": True}, True),
        ({"*": False, "writer": True}, False),
    ],
)
def test_of_what_stands_under_several_names_of_a_tool_the_strictest_counts_for_places_outside(
    project: Path, outside: dict[str, bool], *, is_denied: bool
) -> None:
    permissions = Permissions(Workspace(project), outside=outside)
    decision = permissions.decide(RenamedReader(), PathArguments(path="../outside.csv"), RunTerms())
    assert isinstance(decision, Deny if is_denied else Ask)
    assert isinstance(permissions.decide(RenamedReader(), PathArguments(path="a.csv"), RunTerms()), Allow)


@pytest.mark.parametrize(
    ("levels", "kind"),
    [
        ({}, Ask),
        ({"reader": "always"}, Allow),
        ({"former_reader": "always"}, Allow),
        ({"unclear_reader": "always"}, Ask),
        ({"reader": "ask", "former_reader": "always"}, Ask),
        ({"reader": "always", "former_reader": "ask"}, Allow),
        ({"reader": "always", "former_reader": "never"}, Deny),
        ({"reader": "always", "unclear_reader": "never"}, Deny),
        ({"writer": "never", "reader": "always"}, Allow),
    ],
)
def test_of_the_levels_under_several_names_of_a_tool_its_own_counts_first_and_never_anywhere(
    project: Path, levels: dict[str, Level], kind: type
) -> None:
    permissions = Permissions(Workspace(project), levels)
    assert isinstance(permissions.decide(RenamedReader("ask"), PathArguments(path="a.csv"), RunTerms()), kind)
