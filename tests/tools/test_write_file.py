"""write_file: a new file, or one replaced whole, only as the user was shown."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.tools.conftest import snapshot
from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.access import REMEMBERED, FileAccess, ReadMemory
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.protocol import Allow, Ask, Preview, TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext, tool_spec
from vibe_jupyter.tools.read_file import ReadFileArgs, ReadFileTool
from vibe_jupyter.tools.write_file import WriteFileArgs, WriteFileOptions, WriteFileTool


@pytest.fixture
def write(files: FileAccess, context: ToolContext):
    async def call(path: str, content: str, *, overwrite: bool = False, **options: Any) -> ToolResult:
        tool = WriteFileTool(files, WriteFileOptions(**options))
        args = WriteFileArgs(path=path, content=content, overwrite=overwrite)
        await tool.precheck(args)
        return await tool.run(args, context)

    return call


def text_of(result: ToolResult) -> str:
    (part,) = result.parts
    assert isinstance(part, TextPart)
    return part.text


@pytest.mark.requirement("tools.write_file.result.fields")
async def test_a_new_file_is_written_byte_for_byte(project: Path, write):
    result = await write("a.py", "x = 'é'\r\ny\n")

    assert (project / "a.py").read_bytes() == "x = 'é'\r\ny\n".encode()
    assert text_of(result) == "path: a.py\nbytes_written: 12\nfile_existed: false\ncontent: as given, 2 lines"
    assert result.details == {
        "path": "a.py",
        "bytes_written": 12,
        "file_existed": False,
        "content": "x = 'é'\r\ny\n",
    }
    assert result.summary == "2 lines"
    assert os.listdir(project) == ["a.py"]


async def test_a_new_file_has_the_rights_that_the_umask_leaves(project: Path, write):
    old = os.umask(0o027)
    try:
        await write("deep/a.txt", "")
    finally:
        os.umask(old)

    assert (project / "deep/a.txt").stat().st_mode & 0o777 == 0o640
    assert (project / "deep").stat().st_mode & 0o777 == 0o750


@pytest.mark.requirement("tools.write_file.overwrite.rule")
async def test_an_existing_file_is_replaced_only_if_that_was_asked_for(project: Path, write):
    (project / "a.txt").write_text("old\n" * 3, encoding="utf-8")
    (project / "a.txt").chmod(0o604)

    with pytest.raises(ToolError, match=r"'a\.txt' exists already\. Nothing was written\. Change it with"):
        await write("a.txt", "new")
    assert (project / "a.txt").read_text(encoding="utf-8") == "old\n" * 3
    result = await write("a.txt", "new", overwrite=True)

    assert (project / "a.txt").read_text(encoding="utf-8") == "new"
    assert (project / "a.txt").stat().st_mode & 0o777 == 0o604
    assert "file_existed: true" in text_of(result)
    assert result.summary == "+1 −3"


@pytest.mark.requirement("tools.write_file.args.fields")
async def test_path_and_content_are_required_and_overwrite_is_false(files: FileAccess, write):
    assert WriteFileArgs(path="a", content="").model_dump() == {"path": "a", "content": "", "overwrite": False}
    for wrong in (
        {},
        {"path": "a"},
        {"content": "a"},
        {"path": "", "content": ""},
        {"path": "a", "content": "", "x": 1},
    ):
        with pytest.raises(ValidationError):
            WriteFileArgs.model_validate(wrong)
    with pytest.raises(ToolError, match="The path is empty"):
        await write("  ", "x")
    assert set(tool_spec(WriteFileTool(files)).parameters["properties"]) == {"path", "content", "overwrite"}


@pytest.mark.requirement("tools.write_file.limit.bytes")
async def test_content_over_the_limit_is_refused_and_nothing_is_written(project: Path, write):
    await write("a.txt", "é" * 10, max_write_bytes=20)
    with pytest.raises(ToolError, match="content is too large: 20 bytes, and write_file takes 19"):
        await write("deep/b.txt", "é" * 10, max_write_bytes=19)

    assert os.listdir(project) == ["a.txt"]
    assert WriteFileOptions().max_write_bytes == 64_000


@pytest.mark.requirement("tools.write_file.parents.create")
async def test_missing_folders_are_made_unless_the_settings_say_no(project: Path, write):
    await write("a/b/c.txt", "x")
    with pytest.raises(ToolError, match=r"The folder of 'd/e\.txt' does not exist"):
        await write("d/e.txt", "x", create_parent_dirs=False)

    assert sorted(str(path.relative_to(project)) for path in project.rglob("*")) == ["a", "a/b", "a/b/c.txt"]
    await write("a/b/d.txt", "x", create_parent_dirs=False)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("src", "'src' is a folder, not a file"),
        ("new/", "'new/' names a folder"),
        ("README.md/x.txt", "which is a file and not a folder"),
        ("pipe", "is a device, pipe or socket"),
        ("sock", "is a device, pipe or socket"),
        ("link_to_itself", "loop of links"),
        ("x" * 300, "a name may have 255 bytes"),
    ],
)
async def test_what_can_be_no_file_is_refused_in_words(tree: Path, context: ToolContext, path: str, said: str):
    (tree / "proj/link_to_itself").symlink_to("link_to_itself")
    before = snapshot(tree)

    with pytest.raises(ToolError) as refusal:
        await WriteFileTool(FileAccess(Workspace(tree / "proj"))).run(
            WriteFileArgs(path=path, content="x", overwrite=True), context
        )

    assert said in str(refusal.value)
    assert snapshot(tree) == before


async def test_half_a_character_is_refused(project: Path, write):
    with pytest.raises(ToolError, match="half a character"):
        await write("a.txt", "x\ud83d")
    assert os.listdir(project) == []


async def test_a_link_into_the_project_leads_to_its_file_and_stays_a_link(project: Path, write):
    (project / "data").mkdir()
    (project / "link").symlink_to("data/new.txt")

    await write("link", "x")
    await write("link", "y", overwrite=True)

    assert (project / "link").is_symlink()
    assert (project / "data/new.txt").read_text(encoding="utf-8") == "y"


async def test_a_hard_link_does_not_lead_out_of_the_project(project: Path, tmp_path: Path, write):
    (tmp_path / "outside.txt").write_text("precious", encoding="utf-8")
    (project / "inside.txt").hardlink_to(tmp_path / "outside.txt")

    result = await write("inside.txt", "new", overwrite=True)

    assert (tmp_path / "outside.txt").read_text(encoding="utf-8") == "precious"
    assert "hard links" in text_of(result)


# ---- what the user is shown ----
@pytest.mark.requirement("tools.write_file.permission.default")
async def test_it_asks_and_shows_path_and_whole_content(workspace: Workspace, files: FileAccess):
    tool, args = WriteFileTool(files), WriteFileArgs(path="src/a.py", content="x = 1\n" * 900)

    decision = Permissions(workspace).decide(tool, args, RunTerms())

    assert isinstance(decision, Ask)
    assert "writes a file" in decision.reason
    assert tool.headline(args).target == "src/a.py"
    shown = tool.preview(args)
    assert (shown.kind, shown.text, shown.language, shown.edits) == ("code", args.content, "py", "content")


async def test_replacing_shows_the_difference(project: Path, files: FileAccess):
    (project / "a.txt").write_text("a\nb\n", encoding="utf-8")
    args = WriteFileArgs(path="a.txt", content="a\nc", overwrite=True)

    shown = WriteFileTool(files).preview(args)

    assert (shown.kind, shown.edits) == ("diff", "content")
    assert shown.text == "@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file"
    assert WriteFileTool(files).headline(args).note == "in place of what is there"


async def test_replacing_what_cannot_be_compared_shows_the_whole_content(project: Path, files: FileAccess):
    (project / "a.bin").write_bytes(b"\xff\xfe\0")

    shown = WriteFileTool(files).preview(WriteFileArgs(path="a.bin", content="new", overwrite=True))

    assert (shown.kind, shown.text, shown.edits) == ("code", "new", "content")


async def test_replacing_by_the_same_says_so(project: Path, files: FileAccess):
    (project / "a.txt").write_text("same", encoding="utf-8")

    shown = WriteFileTool(files).preview(WriteFileArgs(path="a.txt", content="same", overwrite=True))

    assert (shown.kind, shown.text) == ("text", "a.txt already has this content.")


@pytest.mark.requirement("tools.write_file.outside.project")
@pytest.mark.parametrize(
    "path",
    ["../outside/secret.txt", "../outside/new.txt", "link_out", "link_dangling_out", ".env", ".git/hooks/pre-commit"],
)
async def test_a_place_that_asks_is_not_opened_and_shows_the_content_alone(tree: Path, path: str):
    workspace = Workspace(tree / "proj")
    tool = WriteFileTool(FileAccess(workspace))
    args = WriteFileArgs(path=path, content="mine", overwrite=True)

    await tool.precheck(args)
    shown = tool.preview(args)

    permissions = Permissions(workspace, levels={"write_file": "always"})
    assert not isinstance(permissions.decide(tool, args, RunTerms()), Allow)
    assert (shown.kind, shown.text) == ("code", "mine") or path == ".git/hooks/pre-commit"
    assert "TOPSECRET" not in shown.model_dump_json()


async def test_the_description_says_to_edit_to_read_first_and_to_write_nothing_unasked(files: FileAccess):
    said = WriteFileTool(files).description

    assert "prefer search_replace" in said
    assert "read it first" in said
    assert "No unasked documentation" in said


# ---- the kernel's notebook ----
@pytest.mark.requirement("notebook.file.own-write")
async def test_the_notebook_of_this_kernel_is_refused_with_the_tools_to_use(
    project: Path, workspace: Workspace, context: ToolContext
):
    from vibe_jupyter.tools.search_replace import SearchReplaceArgs, SearchReplaceTool

    (project / "open.ipynb").write_text("{}", encoding="utf-8")
    (project / "link.ipynb").symlink_to("open.ipynb")

    async def owns(path: Path) -> bool:
        return path == project / "open.ipynb"

    files = FileAccess(workspace, owns)
    for path in ("open.ipynb", "link.ipynb", str(project / "open.ipynb")):
        writing = WriteFileArgs(path=path, content="x", overwrite=True)
        editing = SearchReplaceArgs(file_path=path, old_string="{", new_string="[")
        for tool, args in ((WriteFileTool(files), writing), (SearchReplaceTool(files), editing)):
            for attempt in (tool.precheck(args), tool.run(args, context)):
                with pytest.raises(ToolError, match=r"is the notebook of this kernel.* edit_cell, insert_cell"):
                    await attempt
    assert (project / "open.ipynb").read_text(encoding="utf-8") == "{}"
    await WriteFileTool(files).run(WriteFileArgs(path="other.ipynb", content="{}"), context)


# ---- what was shown is what is written ----
@pytest.mark.parametrize("change", ["content", "gone", "appeared", "another file"])
async def test_a_file_that_changed_since_it_was_shown_is_left_alone(
    project: Path, files: FileAccess, context: ToolContext, change: str
):
    place = project / "a.txt"
    if change != "appeared":
        place.write_text("aaaa", encoding="utf-8")
    tool, args = WriteFileTool(files), WriteFileArgs(path="a.txt", content="mine", overwrite=True)
    first = tool.preview(args)
    match change:
        case "gone":
            place.unlink()
        case "another file":
            (project / "b").write_text("bbbb", encoding="utf-8")
            (project / "b").rename(place)
        case _:
            place.write_text("bbbb", encoding="utf-8")
    before = snapshot(project)

    with pytest.raises(ToolError, match="changed since it was shown"):
        await tool.run(args, context)

    assert snapshot(project) == before
    again = args.model_validate(args.model_dump())  # as the call is prepared again
    assert tool.preview(again) != first
    await tool.run(again, context)
    assert place.read_text(encoding="utf-8") == "mine"


async def test_a_file_outside_that_changed_since_it_was_shown_is_left_alone(
    project: Path, tmp_path: Path, files: FileAccess, context: ToolContext
):
    place = tmp_path / "outside.txt"
    place.write_text("old", encoding="utf-8")
    tool, args = WriteFileTool(files), WriteFileArgs(path="../outside.txt", content="mine", overwrite=True)
    shown: Preview = tool.preview(args)
    place.write_text("other", encoding="utf-8")

    with pytest.raises(ToolError, match="changed since it was shown"):
        await tool.run(args, context)

    assert place.read_text(encoding="utf-8") == "other"
    assert tool.preview(args) != shown


async def test_a_file_that_changed_since_the_agent_read_it_is_not_replaced(
    project: Path, workspace: Workspace, context: ToolContext
):
    place, memory = project / "a.txt", ReadMemory()
    place.write_text("old", encoding="utf-8")
    tool, read = WriteFileTool(FileAccess(workspace, memory=memory)), ReadFileTool(workspace, memory=memory)
    await read.run(ReadFileArgs(path="a.txt"), context)
    place.write_text("mine", encoding="utf-8")

    for attempt in (tool.precheck, lambda args: tool.run(args, context)):
        with pytest.raises(ToolError, match="was changed since you read it"):
            await attempt(WriteFileArgs(path="a.txt", content="new", overwrite=True))
    assert place.read_text(encoding="utf-8") == "mine"

    await read.run(ReadFileArgs(path="a.txt"), context)
    for content in ("new", "newer"):
        await tool.run(WriteFileArgs(path="a.txt", content=content, overwrite=True), context)
    assert place.read_text(encoding="utf-8") == "newer"


def test_the_memory_of_what_was_read_is_bounded(tmp_path: Path):
    memory, status = ReadMemory(), tmp_path.stat()
    for number in range(REMEMBERED + 1):
        memory.saw(tmp_path / str(number), status)

    assert not memory.is_stale(tmp_path / "0", "other")
    assert memory.is_stale(tmp_path / "1", "other")
