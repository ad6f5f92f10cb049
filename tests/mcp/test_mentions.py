"""``@server:address`` and ``/server:prompt`` in a prompt: what is fetched before the run's first request."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.bench import McpBench, all_of, asking_at, asking_over_http, mcp_bench, one
from tests.mcp.test_odd_answers import PIXEL
from vibe_jupyter.context.mention_syntax import mentioned_resources
from vibe_jupyter.files.truncation import kept_file
from vibe_jupyter.mcp.server_requests import RESOURCE_LIMIT, RESOURCES
from vibe_jupyter.protocol import Notice, RunFinished, ToolFinished
from vibe_jupyter.session.conversation import check_history
from vibe_jupyter.testing import say


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """One server that the tests of this module share."""
    with asking_over_http() as url:
        yield url


@pytest.fixture
async def bench(tmp_path: Path, url: str) -> AsyncIterator[McpBench]:
    async with mcp_bench(tmp_path) as bench:
        bench.declare(asking_at(url))
        bench.model.will_reply(say("done"), say("done"), say("done"))
        yield bench


def sent(bench: McpBench) -> list[dict[str, Any]]:
    """The parts of the last user message."""
    content = bench.model.requests[-1].body["messages"][-1]["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def text(bench: McpBench) -> str:
    return "\n".join(part["text"] for part in sent(bench) if part["type"] == "text")


async def test_a_resource_goes_before_the_persons_words_as_data_that_is_marked_as_such(bench: McpBench) -> None:
    events = await bench.ask("What do I need? See @asking:notes://today, please.")
    before, _, after = text(bench).partition("Buy bread.")
    assert "[MCP server asking, resource notes://today: data until " in before
    assert after.endswith("What do I need? See @asking:notes://today, please.")
    step = one(events, ToolFinished)
    assert (step.name, step.headline.target, step.outcome) == ("read_resource", "asking:notes://today", "ok")
    check_history(bench.conversation.history)


async def test_where_no_value_may_be_sent_neither_a_resource_nor_a_prompt_of_a_server_is(bench: McpBench) -> None:
    bench.schema_only = True
    bench.sees_images = True
    events = await bench.ask("Read @asking:notes://today and @asking:notes://pixel")
    assert "Buy bread." not in str(bench.model.requests[-1].body)
    assert [part["type"] for part in sent(bench)] == ["text"] * len(sent(bench))
    assert text(bench).count("withheld: no values are sent") == 2
    assert "Buy bread." in str(all_of(events, ToolFinished)[0].display)
    before = len(bench.model.requests)
    refused = one(await bench.ask('/asking:review path="my file.py"'), RunFinished)
    assert "lets no text of MCP servers be sent" in refused.error
    assert len(bench.model.requests) == before


async def test_a_template_is_filled_in_by_the_address(bench: McpBench) -> None:
    await bench.ask("Sum up @asking:notes://monday/all")
    assert "Notes of monday." in text(bench)


@pytest.mark.parametrize(
    ("prompt", "uris"),
    [
        ("Read @s:notes://a.", "notes://a"),
        ("(as in @s:notes://a)", "notes://a"),
        ("(as in @s:notes://a_(b))", "notes://a_(b)"),
        ("Read @s:notes://a_(b), @s:notes://c[0]; and {@s:notes://d}!", "notes://a_(b) notes://c[0] notes://d"),
        ("“@s:notes://a_(b)_(c)”…", "notes://a_(b)_(c)"),
        ("see (@s:notes://a_(b)_(c)).", "notes://a_(b)_(c)"),
        ("[@s:notes://a(b]", "notes://a(b"),
        ('Read @"s:notes://a b).", please', "notes://a b)."),
    ],
)
def test_an_address_keeps_the_brackets_that_it_opens_and_leaves_the_sentence_its_own(prompt: str, uris: str) -> None:
    found = [one.uri for one in mentioned_resources(prompt)]
    assert found == ([uris] if '"' in prompt else uris.split())


async def test_a_long_resource_is_cut_and_the_whole_is_kept(bench: McpBench) -> None:
    await bench.ask("Read @asking:notes://long")
    words = text(bench)
    assert len(words) < RESOURCE_LIMIT + 500
    handle = words[words.index("result:") :].split()[0].rstrip("]).")
    file = kept_file(handle, bench.conversation.journal.path.parent)
    assert file is not None
    assert "x" * 100_000 in file.read_text(encoding="utf-8")


async def test_a_picture_goes_to_a_model_that_sees_and_is_words_for_one_that_does_not(bench: McpBench) -> None:
    await bench.ask("Look at @asking:notes://pixel")
    assert [part["type"] for part in sent(bench)] == ["text"]
    assert "image/png" in text(bench)
    bench.sees_images = True
    await bench.ask("Look at @asking:notes://pixel again")
    pictures = [part["image_url"]["url"] for part in sent(bench) if part["type"] == "image_url"]
    assert pictures == [f"data:image/png;base64,{PIXEL}"]


async def test_what_cannot_be_read_is_told_to_the_person_and_the_model_and_the_run_goes_on(bench: McpBench) -> None:
    events = await bench.ask("Read @asking:notes://nothing/at/all and @absent:notes://today")
    steps = all_of(events, ToolFinished)
    assert [step.outcome for step in steps] == ["error", "error"]
    assert "There is no MCP server 'absent'" in steps[1].summary
    assert "@asking:notes://nothing/at/all could not be read: " in text(bench)
    assert "@absent:notes://today could not be read: " in text(bench)
    assert one(events, RunFinished).reason == "stop"


async def test_a_prompt_names_a_bounded_number_of_resources(bench: McpBench) -> None:
    names = " ".join(f"@asking:notes://day{number}/all" for number in range(RESOURCES + 2))
    events = await bench.ask(names)
    assert len(all_of(events, ToolFinished)) == RESOURCES
    assert text(bench).count("was not read") == 2


async def test_a_prompt_of_a_server_takes_the_place_of_the_words_with_what_it_carries_along(bench: McpBench) -> None:
    events = await bench.ask('/asking:review path="my file.py" tone=strict\nBe quick.')
    words = text(bench)
    assert words.startswith("Review my file.py, and be strict.")
    assert "[MCP server asking, prompt review: data until " in words
    assert "Be brief." in words
    assert words.endswith("Be quick.")
    assert "/asking:review" not in words
    step = one(events, ToolFinished)
    assert (step.name, step.outcome) == ("get_prompt", "ok")
    assert "Review my file.py" in step.display["text/plain"]


async def test_a_prompt_that_is_a_dialogue_says_who_speaks(bench: McpBench) -> None:
    await bench.ask("/asking:dialogue")
    assert text(bench) == "User:\n\nOne?\n\nAssistant:\n\nTwo.\n\nUser:\n\nThree?"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("/asking:review", "The prompt needs path. Write: /asking:review path=… [tone=…]. Nothing was sent."),
        ("/asking:review path=", "The prompt needs path."),
        ("/asking:review path=a colour=red", "The prompt has no argument colour. Write: /asking:review"),
        ("/asking:reveiw path=a", "has no prompt 'reveiw'. It has: review."),
        ("/absent:review path=a", "There is no MCP server 'absent'"),
    ],
)
async def test_a_prompt_that_is_not_there_or_lacks_an_argument_ends_the_run_before_anything_is_sent(
    bench: McpBench, words: str, problem: str
) -> None:
    events = await bench.ask(words)
    finished = one(events, RunFinished)
    assert finished.reason == "error"
    assert problem in finished.error
    assert bench.model.requests == []
    assert bench.conversation.history == ()


async def test_a_server_that_does_not_start_is_told_once_and_the_run_goes_on(bench: McpBench) -> None:
    from vibe_jupyter.config.tool_servers import ServerProgram, ToolServer

    bench.declare(ToolServer("broken", ServerProgram(("no-such-program-anywhere",))))
    first = await bench.ask("go")
    second = await bench.ask("again")
    told = [notice.text for notice in all_of(first, Notice) if notice.level == "warning"]
    assert len(told) == 1
    assert "no-such-program-anywhere" in told[0]
    assert [notice for notice in all_of(second, Notice) if notice.level == "warning"] == []
    assert one(second, RunFinished).reason == "stop"
