"""Long results are kept whole where the model can page through them."""

import os
import resource
from pathlib import Path

import pytest

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.truncation import KEPT_LIMIT, RESULT_LIMIT, is_spill_handle, kept_file, spill_result, spill_text
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.protocol import ImagePart, TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext
from vibe_jupyter.tools.grep import GrepArgs, GrepOptions, GrepTool
from vibe_jupyter.tools.read_file import ReadFileArgs, ReadFileOptions, ReadFileTool

LONG = "".join(f"line {number}\n" for number in range(20_000))


def handle_in(text: str) -> str:
    return text.rpartition("read_file path=")[2].removesuffix("]")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return tmp_path / "session"


@pytest.mark.parametrize("limit", [RESULT_LIMIT, 1_000])
def test_a_long_text_gives_its_ends_and_the_handle_of_the_whole(session: Path, limit: int):
    shown = spill_text(LONG, session, limit)

    assert len(shown) <= limit
    assert shown.startswith("line 0\nline 1\n")
    assert "line 19999\n\n[All 208,890 characters in 20,001 lines: read_file path=result:" in shown
    place = kept_file(handle_in(shown), session)
    assert place is not None
    assert place.read_text(encoding="utf-8") == LONG
    assert (place.stat().st_mode & 0o777, place.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert spill_text(LONG, session, limit) == shown
    assert len(os.listdir(place.parent)) == 1


def test_a_text_within_the_limit_is_left_alone(session: Path):
    assert spill_text("x" * RESULT_LIMIT, session) == "x" * RESULT_LIMIT
    assert not session.exists()


def test_without_a_session_only_the_ends_are_left():
    shown = spill_text(LONG, None)

    assert len(shown) <= RESULT_LIMIT
    assert "read_file" not in shown
    assert "left out" in shown


def test_what_cannot_be_kept_is_said_and_leaves_nothing(session: Path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        shown = spill_text(LONG, session)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert shown.endswith("[The whole could not be kept: File too large.]")
    assert len(shown) <= RESULT_LIMIT
    assert os.listdir(session / "results") == []


def test_what_is_kept_of_one_result_is_bounded(session: Path):
    shown = spill_text("é" * KEPT_LIMIT, session)

    place = kept_file(handle_in(shown), session)
    assert place is not None
    assert place.stat().st_size == KEPT_LIMIT
    assert f"(its first {KEPT_LIMIT:,} bytes)" in shown


def test_images_of_a_result_stay_and_each_text_is_bounded(session: Path):
    image = ImagePart(media_type="image/png", data="AAAA")
    result = ToolResult(parts=(TextPart(text=LONG), image), summary="said")

    cut = spill_result(result, session)

    assert cut.parts[1] is image
    assert (cut.summary, cut.parts[0].text) == ("said", spill_text(LONG, session))
    assert spill_result(ToolResult.text("short"), session) == ToolResult.text("short")


@pytest.mark.parametrize("path", ["result:", "result:../../x", "result:0123456789AB", "./result:0123456789ab", "x"])
def test_only_handles_name_kept_results(session: Path, path: str):
    assert not is_spill_handle(path)
    assert kept_file(path, session) is None


async def test_read_file_pages_through_a_kept_result_without_asking(
    session: Path, workspace: Workspace, context: ToolContext
):
    handle = handle_in(spill_text(LONG, session))
    tool = ReadFileTool(workspace, session_folder=lambda: session)
    args = ReadFileArgs(path=handle, offset=19_000, limit=2)

    result = await tool.run(args, context)

    assert list(tool.touches(args)) == []
    assert result.parts[0].text.partition("content:\n")[2] == "line 19000\nline 19001"
    assert f"path: {handle}\n" in result.parts[0].text


async def test_a_handle_of_another_conversation_reads_nothing(
    tmp_path: Path, session: Path, workspace: Workspace, context: ToolContext
):
    handle = handle_in(spill_text(LONG, session))
    (session / "results" / "0123456789ab.txt").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("secret", encoding="utf-8")

    for folder, path in ((tmp_path / "other", handle), (None, handle), (session, "result:0123456789ab")):
        tool = ReadFileTool(workspace, session_folder=lambda folder=folder: folder)
        with pytest.raises(ToolError, match="no result is kept under that name"):
            await tool.run(ReadFileArgs(path=path), context)


@pytest.mark.parametrize("path", ["long.txt", "wide.txt"])
async def test_who_sets_larger_pages_gets_them_whole(
    project: Path, workspace: Workspace, context: ToolContext, path: str
):
    (project / "long.txt").write_text("hit " + "x\n" * 100_000, encoding="utf-8")
    (project / "wide.txt").write_text(("hit " + "x" * 5_000 + "\n") * 100, encoding="utf-8")
    read = ReadFileTool(workspace, options=ReadFileOptions(max_read_bytes=64_000))
    grep = GrepTool(workspace, GrepOptions(max_output_bytes=64_000))

    page = await read.run(ReadFileArgs(path=path), context)
    found = await grep.run(GrepArgs(pattern=".", path=path, max_matches=50_000), context)

    assert RESULT_LIMIT < len(page.parts[0].text) <= read.result_limit
    assert RESULT_LIMIT < len(found.parts[0].text) <= grep.result_limit
    assert (ReadFileTool(workspace).result_limit, GrepTool(workspace).result_limit) == (RESULT_LIMIT, RESULT_LIMIT)
