"""The memory tool on a real file."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.protocol import Allow, Ask, TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext
from vibe_jupyter.tools.memory import MAX_FACTS, SHOWN, MemoryArgs, MemoryFile, MemoryTool


@pytest.fixture
def file(tmp_path: Path, project: Path) -> MemoryFile:
    return MemoryFile(tmp_path / "memory", project)


@pytest.fixture
def memory(file: MemoryFile) -> MemoryTool:
    return MemoryTool(file)


def text_of(result: ToolResult) -> str:
    part = result.parts[0]
    assert isinstance(part, TextPart)
    return part.text


@pytest.mark.requirement("tools.memory.add.fact")
async def test_add_answers_with_success_and_an_id(memory: MemoryTool, context: ToolContext) -> None:
    result = await memory.run(MemoryArgs(operation="add", content="Plots are dark.", type="preference"), context)
    success, memory_id = text_of(result).splitlines()
    assert success == "success: true"
    got = await memory.run(MemoryArgs(operation="get", memory_id=memory_id.removeprefix("memory_id: ")), context)
    assert "(preference, " in text_of(got)
    assert text_of(got).endswith("Plots are dark.")


@pytest.mark.requirement("tools.memory.search.facts")
async def test_search_finds_what_fits_and_nothing_is_a_success_too(memory: MemoryTool, context: ToolContext) -> None:
    for fact in ("The key column is customer_id.", "Prices are in euro.", "Euro prices of customer 7 are wrong."):
        await memory.run(MemoryArgs(operation="add", content=fact), context)
    found = text_of(await memory.run(MemoryArgs(operation="search", query="Customer EURO"), context))
    assert found.splitlines()[:2] == ["success: true", "found: 3"]
    assert "customer 7" in found.splitlines()[2]
    nothing = await memory.run(MemoryArgs(operation="search", query="weather"), context)
    assert not nothing.is_error
    assert text_of(nothing) == "success: true\nfound: 0"


@pytest.mark.requirement("tools.memory.search.facts")
@pytest.mark.parametrize("count", [SHOWN, SHOWN + 1])
async def test_of_many_facts_the_newest_are_shown_and_of_a_query_those_that_hold_most_of_it(
    memory: MemoryTool, file: MemoryFile, context: ToolContext, count: int
) -> None:
    for number in range(count):
        file.add(
            f"Fact {number}." if number != 1 else "Fact 1 of one price.", "preference" if number % 2 else "knowledge"
        )

    async def shown(**asked: str) -> tuple[str, list[int]]:
        head, *lines = text_of(await memory.run(MemoryArgs(operation="search", **asked), context)).splitlines()[1:]
        return head, [int(re.findall(r"Fact (\d+)", line)[0]) for line in lines]

    more = f", first {SHOWN}" if count > SHOWN else ""
    assert await shown() == (f"found: {count}{more}", list(range(count))[::-1][:SHOWN])
    head, found = await shown(query="the price of a fact")
    assert (head, found[0], len(found)) == (f"found: {count}{more}", 1, SHOWN)
    assert (await shown(type="preference"))[1] == list(range(count))[1::2][::-1]


@pytest.mark.requirement("tools.memory.add.type", "tools.memory.get.fact")
async def test_a_fact_has_a_type_by_which_search_narrows_and_get_gives_one(
    memory: MemoryTool, context: ToolContext
) -> None:
    for kind, fact in (("knowledge", "Prices are net."), ("preference", "Prices in bars."), ("", "Prices rose.")):
        said = await memory.run(MemoryArgs(operation="add", content=fact, type=kind), context)
        assert text_of(said).startswith("success: true\nmemory_id: mem_")
    found = text_of(await memory.run(MemoryArgs(operation="search", query="prices", type="knowledge"), context))
    assert found.splitlines()[1] == "found: 1"
    assert "(knowledge, " in found
    assert "found: 3" in text_of(await memory.run(MemoryArgs(operation="search", query="prices"), context))
    fact_id = found.split("`")[1]
    got = text_of(await memory.run(MemoryArgs(operation="get", memory_id=fact_id), context))
    assert got.endswith("Prices are net.")
    assert got.count("mem_") == 1
    with pytest.raises(ToolError, match=r"There is no fact 'mem_00000000'\. Known: mem_"):
        await memory.run(MemoryArgs(operation="get", memory_id="mem_00000000"), context)


@pytest.mark.requirement("tools.memory.args.operation")
def test_an_unknown_operation_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ValidationError, match="'add', 'search', 'get' or 'forget'"):
        MemoryArgs.model_validate({"operation": "drop"})
    with pytest.raises(ValidationError):
        MemoryArgs.model_validate({})
    with pytest.raises(ValidationError, match="add requires content"):
        MemoryArgs.model_validate({"operation": "add", "content": " "})
    with pytest.raises(ValidationError, match="forget requires memory_id"):
        MemoryArgs.model_validate({"operation": "forget"})


@pytest.mark.requirement("tools.memory.persist.sessions")
async def test_facts_are_read_by_another_process_and_by_people(
    memory: MemoryTool, file: MemoryFile, context: ToolContext, project: Path
) -> None:
    await memory.run(MemoryArgs(operation="add", content="First line.\nSecond line."), context)
    code = (
        "from pathlib import Path; from vibe_jupyter.tools.memory import MemoryFile; "
        f"print(MemoryFile(Path({str(file.path.parent)!r}), Path({str(project)!r})).facts()[0].text)"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert seen.stdout == "First line.\nSecond line.\n"
    assert file.path.suffix == ".md"
    assert file.path.read_text().startswith(f"# What the agent remembers of {project}\n\n- `mem_")
    assert file.path.stat().st_mode & 0o077 == 0
    other = MemoryFile(file.path.parent, project.parent / "elsewhere" / project.name)
    assert other.facts() == []


@pytest.mark.requirement("tools.memory.permission.write")
async def test_storing_and_forgetting_ask_and_searching_does_not(memory: MemoryTool, workspace: Workspace) -> None:
    permissions = Permissions(workspace)
    decide = {
        operation: permissions.decide(
            memory, MemoryArgs.model_validate({"operation": operation, "content": "x", "memory_id": "m"}), RunTerms()
        )
        for operation in ("add", "forget", "get", "search")
    }
    assert [type(decide[name]) for name in ("add", "forget", "get", "search")] == [Ask, Ask, Allow, Allow]


async def test_what_the_person_wrote_into_the_file_stays(
    memory: MemoryTool, file: MemoryFile, context: ToolContext
) -> None:
    first = await memory.run(MemoryArgs(operation="add", content="One."), context)
    file.path.write_text(file.path.read_text() + "\n## My own notes\n- not a fact of the agent\n")
    await memory.run(MemoryArgs(operation="add", content="Two."), context)
    gone = text_of(first).splitlines()[1].removeprefix("memory_id: ")
    await memory.run(MemoryArgs(operation="forget", memory_id=gone), context)
    text = file.path.read_text()
    assert "## My own notes\n- not a fact of the agent\n" in text
    assert [fact.text for fact in file.facts()] == ["Two."]


async def test_a_file_that_is_not_utf_8_loses_nothing_and_is_read_all_the_same(
    memory: MemoryTool, file: MemoryFile, context: ToolContext
) -> None:
    fact = file.add("Prices are net.")
    file.path.write_bytes(file.path.read_bytes() + b"caf\xe9\n")
    before = file.path.read_bytes()
    for asked in (
        MemoryArgs(operation="add", content="More."),
        MemoryArgs(operation="forget", memory_id=fact.id),
    ):
        with pytest.raises(ToolError, match="not UTF-8"):
            await memory.run(asked, context)
    assert file.path.read_bytes() == before
    assert "Prices are net." in text_of(await memory.run(MemoryArgs(operation="search"), context))


def test_a_file_that_is_a_link_stays_one(file: MemoryFile, tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "memory.md"
    kept.parent.mkdir()
    kept.write_text("# mine\n", encoding="utf-8")
    file.path.parent.mkdir()
    file.path.symlink_to(kept)
    fact = file.add("Prices are net.")
    assert file.path.is_symlink()
    assert kept.read_text(encoding="utf-8") == f"# mine\n{fact.line()}"


async def test_the_same_fact_is_kept_once(memory: MemoryTool, file: MemoryFile, context: ToolContext) -> None:
    one = await memory.run(MemoryArgs(operation="add", content="Same."), context)
    two = await memory.run(MemoryArgs(operation="add", content="Same. "), context)
    assert text_of(one) == text_of(two)
    assert len(file.facts()) == 1


async def test_an_id_that_is_not_there_is_answered_with_those_that_are(
    memory: MemoryTool, context: ToolContext
) -> None:
    added = text_of(await memory.run(MemoryArgs(operation="add", content="Here."), context)).split()[-1]
    with pytest.raises(ToolError, match=added):
        await memory.run(MemoryArgs(operation="forget", memory_id="mem_00000000"), context)


async def test_a_full_memory_says_so_and_loses_nothing(
    memory: MemoryTool, file: MemoryFile, context: ToolContext
) -> None:
    await memory.run(MemoryArgs(operation="add", content="x"), context)
    line = file.path.read_text().splitlines()[-1]
    file.path.write_text("".join(f"{line[:7]}{number:08x}{line[15:]}\n" for number in range(MAX_FACTS)))
    before = file.path.read_bytes()
    assert len(file.facts()) == MAX_FACTS
    with pytest.raises(ToolError, match="forget some first"):
        await memory.run(MemoryArgs(operation="add", content="one more"), context)
    assert file.path.read_bytes() == before


async def test_two_kernels_that_write_at_once_lose_no_fact(file: MemoryFile, project: Path) -> None:
    code = (
        "from pathlib import Path; from vibe_jupyter.tools.memory import MemoryFile\n"
        "import sys\n"
        f"file = MemoryFile(Path({str(file.path.parent)!r}), Path({str(project)!r}))\n"
        "for number in range(25): file.add(f'{sys.argv[1]}-{number}', 'fact')\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "ab"]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert {fact.text for fact in file.facts()} == {f"{name}-{number}" for name in "ab" for number in range(25)}
