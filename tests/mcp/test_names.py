"""What servers' tools are called: unique, stable, and never to be taken for another."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawn_values import PATIENT
from vibe_jupyter.config.tool_servers import ServerAddress, ServerProgram
from vibe_jupyter.mcp.tool_names import (
    LONGEST,
    PublishedTool,
    RemoteTool,
    anonymous_name,
    publish_names,
    published_name,
)
from vibe_jupyter.mcp.toolset import rank_tools

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def tool(name: str) -> RemoteTool:
    return RemoteTool(name, "", {"type": "object"})


def named(*listed: tuple[str, str], taken: tuple[str, ...] = ()) -> tuple[list[PublishedTool], list[str]]:
    """The tools that got a name, and what is said of the others."""
    found, problems = publish_names([(server, tool(name)) for server, name in listed], taken=taken)
    return list(found), list(problems)


def test_a_plain_name_is_put_together() -> None:
    assert published_name("serena", "find_symbol") == "mcp__serena__find_symbol"


@pytest.mark.requirement("mcp.name.published")
@PATIENT
@given(st.lists(st.tuples(st.from_regex(r"[A-Za-z0-9_-]{1,70}", fullmatch=True), st.text(max_size=90)), max_size=8))
def test_every_published_name_is_one_that_model_servers_take_and_no_two_are_the_same(
    listed: list[tuple[str, str]],
) -> None:
    found, problems = named(*dict.fromkeys(listed))
    names = [one.name for one in found]
    assert all(NAME.fullmatch(name) for name in names)
    assert all(name.startswith("mcp__") for name in names)
    assert len({name.casefold() for name in names}) == len(names)
    assert len(found) + len(problems) == len(dict.fromkeys(listed))


@pytest.mark.parametrize("name", ["a.b", "a b", "añb", "x" * 80, "a/b/c"])
def test_a_name_that_had_to_be_changed_bears_a_mark_and_stays_the_same_whatever_is_beside_it(name: str) -> None:
    alone, _ = named(("s", name))
    beside, _ = named(("s", "a_b"), ("t", name), ("s", name))
    assert re.search(r"_[0-9a-f]{8}$", alone[0].name)
    assert alone[0].name in [one.name for one in beside]
    assert len(alone[0].name) <= LONGEST


def test_a_server_whose_name_would_split_elsewhere_never_meets_another() -> None:
    found, problems = named(("a", "b__c"), ("a__b", "c"), ("a_", "x"), ("a", "_x"))
    assert problems == []
    assert len({one.name for one in found}) == 4


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ("Read_File", "'Read_File' looks like 'mcp__fs__read_file'"),
        ("read-file", "'read-file' looks like 'mcp__fs__read_file'"),
        ("re\u0430d_file", r"'re\u0430d_file' is written to look like 'read_file'"),
        ("read\u200b_file", r"'read\u200b_file' is written to look like 'read_file'"),
        ("ｒead_file", r"'\uff52ead_file' is written to look like 'read_file'"),
        ("", "its name has 0 characters"),
        ("x" * 1_001, "its name has 1,001 characters"),
    ],
)
def test_what_looks_like_a_name_that_is_there_gets_none_and_is_told(second: str, reason: str) -> None:
    found, problems = named(("fs", "read_file"), ("fs", second))
    assert [one.name for one in found] == ["mcp__fs__read_file"]
    assert problems == [f"A tool of the MCP server fs is left out: {reason}."]


def test_a_tool_that_imitates_a_built_in_one_in_other_letters_is_left_out() -> None:
    _, problems = named(("evil", "b\u0430sh"), taken=("bash",))
    assert problems == [r"A tool of the MCP server evil is left out: 'b\u0430sh' is written to look like 'bash'."]


@pytest.mark.attack("MCP servers", always=True)
def test_servers_whose_names_look_alike_cannot_pass_for_each_other() -> None:
    found, problems = named(("github", "search"), ("GitHub", "search"), ("glthub", "search"))
    assert [one.server for one in found] == ["github"]
    assert len(problems) == 2


def test_a_server_may_name_its_tool_as_a_built_in_one_is_named() -> None:
    found, problems = named(("fs", "read_file"), taken=("read_file",))
    assert ([one.name for one in found], problems) == (["mcp__fs__read_file"], [])


@pytest.mark.requirement("mcp.name.builtin-wins")
def test_a_name_that_another_tool_has_is_given_to_no_servers_tool_in_any_form() -> None:
    found, problems = named(("mine", "read"), ("read", "file"), taken=("mcp__mine__read", "read_file"))
    assert [(one.name, one.others) for one in found] == [("mcp__read__file", ())]
    assert problems == ["A tool of the MCP server mine is left out: 'read' looks like 'mcp__mine__read'."]


def test_a_short_form_that_means_two_tools_means_none() -> None:
    found, _ = named(("a", "b_c"), ("a_b", "c"), ("a", "d"))
    assert [one.others for one in found] == [(), (), ("a_d",)]


def test_lists_of_tools_may_use_a_short_form_even_where_it_means_two() -> None:
    found, _ = named(("a", "b_c"), ("a_b", "c"))
    assert [one.names for one in found] == [("mcp__a__b_c", "a_b_c"), ("mcp__a_b__c", "a_b_c")]


@pytest.mark.parametrize(
    ("query", "ranked"),
    [
        ("forecast", ["b/forecast", "a/forecast_days", "forecast/list", "a/rain"]),
        ("mcp__a__rain", ["a/rain", "a/forecast_days", "b/forecast", "forecast/list", "c/find"]),
        ("rain", ["a/rain", "b/forecast"]),
        ("forecast rain", ["b/forecast", "a/rain", "a/forecast_days", "forecast/list"]),
        ("list", ["forecast/list", "a/rain", "a/forecast_days", "c/find"]),
        ("find lists", ["c/find", "a/forecast_days"]),
        ("snow", []),
        ("", []),
    ],
)
def test_tools_that_fit_are_ranked_by_name_server_and_words_and_alike_ones_stay_in_their_order(
    query: str, ranked: list[str]
) -> None:
    listed = [
        ("b", "forecast", "Says how much rain comes."),
        ("a", "rain", "A list of each forecast."),
        ("a", "forecast_days", "Lists days."),
        ("forecast", "list", "Tells all."),
        ("c", "find", "Looks through a list."),
    ]
    tools = [(server, RemoteTool(name, said, {"type": "object"})) for server, name, said in listed]
    known, _ = publish_names(tools, taken=())
    assert [f"{one.server}/{one.tool.name}" for one in rank_tools(query, known)] == ranked


@pytest.mark.requirement("mcp.name.anonymous")
@pytest.mark.parametrize(
    ("at", "name"),
    [
        (ServerAddress("https://mcp.example.com/mcp?key=1"), "mcp_example_com_443"),
        (ServerAddress("http://127.0.0.1:8931/mcp"), "127_0_0_1_8931"),
        (ServerProgram(("/usr/bin/npx", "-y", "@scope/server")), "npx_7099359a"),
        (ServerProgram(("/usr/bin/npx", "-y", "@scope/other")), "npx_45472f9c"),
    ],
)
def test_a_server_without_a_name_gets_one_from_host_and_port_or_from_its_command(
    at: ServerAddress | ServerProgram, name: str
) -> None:
    assert anonymous_name(at) == name
    assert re.fullmatch(r"[A-Za-z0-9_-]+", name)
