"""A result too long for the model: its ends go to it, the whole can be paged."""

from tests.agent.conftest import Bench
from vibe_jupyter.files.truncation import RESULT_LIMIT
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.testing import call, say
from vibe_jupyter.tools.contract import StaticToolset
from vibe_jupyter.tools.read_file import ReadFileTool


async def test_the_model_is_given_both_ends_and_a_name_to_page_the_rest(bench: Bench) -> None:
    folder = bench.journal.path.parent
    reader = ReadFileTool(Workspace(folder), session_folder=lambda: folder)
    bench.tools = StaticToolset([bench.quiet, reader])
    text = "".join(f"line {number}\n" for number in range(3_000))
    bench.model.will_reply(call("quiet", text=text), say("long"))
    await bench.ask("go")
    (result,) = bench.model.requests[1].tool_results
    assert len(result) <= RESULT_LIMIT
    assert result.startswith("line 0\n")
    assert "line 2999" in result
    handle = result.rpartition("read_file path=")[2].rstrip("]")
    bench.model.will_reply(call("read_file", path=handle, offset=1_500, limit=2), say("done"))
    await bench.ask("the middle")
    assert "line 1500\nline 1501" in bench.model.requests[3].tool_results[-1]


async def test_a_result_that_fits_is_not_kept(bench: Bench) -> None:
    bench.model.will_reply(call("quiet", text="x" * RESULT_LIMIT), say("done"))
    await bench.ask("go")
    assert bench.model.requests[1].tool_results == ["x" * RESULT_LIMIT]
    assert not (bench.journal.path.parent / "results").exists()


async def test_what_is_kept_of_a_long_result_holds_no_secret(bench: Bench) -> None:
    bench.model.will_reply(call("quiet", text="password = 'x7Gh2-kQw9'\n", times=3_000), say("done"))
    await bench.ask("go")
    kept = [path.read_text(encoding="utf-8") for path in (bench.journal.path.parent / "results").iterdir()]
    assert len(kept) == 1
    assert "[redacted: password" in kept[0]
    assert "x7Gh2" not in kept[0]
