"""read_file: pages of text, whatever the encoding, and errors that say what to do."""

import base64
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from pydantic import ValidationError

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.protocol import Allow, Ask, ImagePart, Resource, TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext, tool_spec
from vibe_jupyter.tools.read_file import ReadFileArgs, ReadFileOptions, ReadFileTool

LATIN = "d\xe9j\xe0 vu\n"


@pytest.fixture
def read(workspace: Workspace, context: ToolContext):
    tool = ReadFileTool(workspace)

    async def call(**args: object) -> ToolResult:
        return await tool.run(ReadFileArgs.model_validate(args), context)

    return call


def text_of(result: ToolResult) -> str:
    (part,) = result.parts
    assert isinstance(part, TextPart)
    return part.text


@pytest.mark.requirement("tools.read_file.result.fields")
async def test_a_small_file_comes_whole_with_its_fields(project: Path, read):
    (project / "notes.txt").write_text("one\ntwo\n", encoding="utf-8")

    result = await read(path="notes.txt")

    assert text_of(result) == "path: notes.txt\nlines_read: 2\nwas_truncated: false\ncontent:\none\ntwo"
    assert result.summary == "2 lines"
    assert result.details == {"path": "notes.txt", "lines_read": 2, "was_truncated": False}
    assert result.display == {"text/plain": "one\ntwo"}


@pytest.mark.requirement("tools.read_file.args.path")
@pytest.mark.requirement("tools.read_file.state.recent")
async def test_a_file_that_was_just_read_and_has_not_changed_is_recognised(project: Path, read):
    for number in range(11):
        (project / f"{number}.txt").write_text(f"text {number}\n", encoding="utf-8")
    again = "note: read a short while ago, and unchanged since"
    assert again not in text_of(await read(path="0.txt"))
    assert again in text_of(await read(path="0.txt"))
    assert again not in text_of(await read(path="0.txt", offset=1))
    (project / "0.txt").write_text("another text\n", encoding="utf-8")
    assert again not in text_of(await read(path="0.txt"))
    for number in range(1, 11):
        assert again not in text_of(await read(path=f"{number}.txt"))
    assert again not in text_of(await read(path="0.txt"))  # ten others were read since
    assert again in text_of(await read(path="10.txt"))


async def test_a_path_may_be_absolute_or_begin_at_the_home(project: Path, read, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(project))
    (project / "a.txt").write_text("a", encoding="utf-8")

    texts = [text_of(await read(path=path)) for path in ("a.txt", str(project / "a.txt"), "~/a.txt")]

    said = "path: a.txt\nlines_read: 1\nwas_truncated: false\n"
    unchanged = f"{said}note: read a short while ago, and unchanged since\ncontent:\na"
    assert texts == [f"{said}content:\na", unchanged, unchanged]
    with pytest.raises(ValidationError):
        await read(path="")
    with pytest.raises(ToolError, match="The path is empty"):
        await read(path=" ")


@pytest.mark.requirement("tools.read_file.args.range")
@pytest.mark.parametrize(
    ("asked", "lines", "summary"),
    [
        ({"offset": 2}, ["line 2", "line 3", "line 4"], "lines 3 to 5"),
        ({"limit": 2}, ["line 0", "line 1"], "lines 1 to 2"),
        ({"offset": 1, "limit": 3}, ["line 1", "line 2", "line 3"], "lines 2 to 4"),
        ({"offset": 4, "limit": 9}, ["line 4"], "lines 5 to 5"),
    ],
)
async def test_offset_counts_from_zero_and_limit_bounds_the_lines(
    project: Path, read, asked: dict[str, int], lines: list[str], summary: str
):
    (project / "a.txt").write_text("".join(f"line {number}\n" for number in range(5)), encoding="utf-8")

    result = await read(path="a.txt", **asked)

    assert text_of(result).partition("content:\n")[2].split("\n") == lines
    assert result.summary == summary
    assert ("more lines follow" in text_of(result)) == (lines[-1] != "line 4")


@pytest.mark.requirement("tools.read_file.args.range")
@pytest.mark.parametrize("asked", [{"offset": -1}, {"limit": 0}, {"lines": 3}])
async def test_arguments_out_of_range_are_errors(read, asked: dict[str, int]):
    with pytest.raises(ValidationError):
        await read(path="a.txt", **asked)


@pytest.mark.requirement("tools.read_file.result.truncated")
async def test_a_long_file_comes_in_pages_that_join_to_the_whole(project: Path, read):
    lines = [f"{number} " + "x" * 90 for number in range(2_000)]
    (project / "long.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    pages: list[str] = []
    offset = 0
    while True:
        result = await read(path="long.txt", offset=offset)
        content = text_of(result).partition("content:\n")[2]
        pages.append(content)
        assert len(text_of(result)) <= 8_000
        offset += content.count("\n") + 1
        if "was_truncated: false" in text_of(result):
            break
        assert f"go on with offset={offset}" in text_of(result)

    assert "\n".join(pages).split("\n") == lines
    assert len(pages) == 26


async def test_a_line_without_end_is_cut_and_the_next_ones_are_read(project: Path, read):
    (project / "min.js").write_text("a" * 500_000 + "\nlast\n", encoding="utf-8")

    text = text_of(await read(path="min.js"))

    assert "was_truncated: true" in text
    assert "lines longer than 4,000 characters were cut" in text
    assert text.endswith("a… (496,001 more characters)\nlast")


@pytest.mark.requirement("tools.read_file.error.past-end")
async def test_an_empty_file_and_an_offset_behind_the_end_are_told_apart(project: Path, read):
    (project / "empty.txt").touch()
    (project / "two.txt").write_text("1\n2\n", encoding="utf-8")

    empty, behind = await read(path="empty.txt"), await read(path="two.txt", offset=2)

    assert text_of(empty).endswith("lines_read: 0\nwas_truncated: false\nnote: the file is empty")
    assert text_of(behind).endswith("note: offset 2 is behind the last line; the file has 2 lines")


@pytest.mark.requirement("tools.read_file.error.missing")
async def test_a_missing_file_and_a_folder_are_distinct_errors(project: Path, read):
    (project / "data").mkdir()
    (project / "data" / "sales.csv").touch()

    with pytest.raises(ToolError) as missing:
        await read(path="data/sale.csv")
    with pytest.raises(ToolError) as folder:
        await read(path="data")

    assert str(missing.value) == "'data/sale.csv' does not exist. Did you mean data/sales.csv?"
    assert str(folder.value) == "'data' is a folder, not a file. It holds sales.csv."


@pytest.mark.requirement("tools.read_file.decode.other")
@pytest.mark.parametrize(
    ("raw", "line", "note"),
    [
        (LATIN.encode("latin-1"), "d\xe9j\xe0 vu", "note: some lines are not valid UTF-8 and were read as Latin-1"),
        (LATIN.encode("utf-8-sig"), "d\xe9j\xe0 vu", ""),
        (LATIN.encode("utf-16"), "d\xe9j\xe0 vu", "note: decoded from UTF-16"),
        (b"\xfe\xff" + LATIN.encode("utf-16-be"), "d\xe9j\xe0 vu", "note: decoded from UTF-16"),
        (LATIN.encode("utf-32"), "d\xe9j\xe0 vu", "note: decoded from UTF-32"),
        (b"a\r\nb\r\n", "a\nb", ""),
        (b"a\xe2\x80\xa8b\n", "a\u2028b", ""),
        (b"x\ry\n", "x\ry", ""),
    ],
)
async def test_no_character_of_another_encoding_is_lost(project: Path, read, raw: bytes, line: str, note: str):
    (project / "t.txt").write_bytes(raw)

    text = text_of(await read(path="t.txt"))

    assert text.partition("content:\n")[2] == line
    assert ("note:" in text) == bool(note)
    assert note in text


@pytest.mark.requirement("tools.read_file.decode.other")
@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(20), "a PNG image"),
        (b"%PDF-1.7 text", "a PDF document"),
        (b"PAR1" + bytes(9), "a Parquet table"),
        (b"\x1f\x8b\x08", "a gzip file"),
        (b"abc\0def", "a binary file"),
    ],
)
async def test_a_file_that_is_no_text_is_refused_by_its_kind(project: Path, read, raw: bytes, kind: str):
    (project / "f").write_bytes(raw)

    with pytest.raises(ToolError) as refusal:
        await read(path="f")

    assert str(refusal.value) == f"'f' is {kind}, not text. Load it with run_code."


@pytest.mark.requirement("notebook.file.other-read")
async def test_a_notebook_is_read_as_its_cells_without_outputs(project: Path, read):
    output = {"output_type": "display_data", "data": {"image/png": "iVBOR" * 10_000}, "metadata": {}}
    cells = [
        {"cell_type": "markdown", "id": "ab12", "metadata": {}, "source": ["# Title\n", "words"]},
        {"cell_type": "code", "id": "cd34", "metadata": {}, "source": "x = 1\nx", "outputs": [output]},
    ]
    (project / "n.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}), encoding="utf-8")

    text = text_of(await read(path="n.ipynb"))

    assert text.partition("content:\n")[2].rstrip() == (
        "--- cell 1, markdown, id ab12 ---\n# Title\nwords\n\n"
        "--- cell 2, code, id cd34, 1 output left out ---\nx = 1\nx"
    )
    assert "note: a notebook, shown as the sources of its cells" in text


@pytest.mark.parametrize("raw", ["{}", "not json", '{"cells": 3}', "[" * 100_000])
async def test_a_broken_notebook_is_read_as_text(project: Path, read, raw: str):
    (project / "n.ipynb").write_text(raw, encoding="utf-8")

    assert text_of(await read(path="n.ipynb")).partition("content:\n")[2].startswith(raw[:100])


async def test_a_csv_file_begins_with_what_its_columns_hold(project: Path, read):
    rows = [f'{at};{at / 2};"Ham; {at % 3}";{"NA" if at % 2 else "2026-01-31"};true' for at in range(500)]
    (project / "data.csv").write_text("id;size;name;day;ok\n" + "\n".join(rows) + "\n", encoding="utf-8")

    first, second = await read(path="data.csv"), await read(path="data.csv", offset=100, limit=1)

    assert text_of(first).partition("content:\n")[0].split("\n")[1:] == [
        "lines_read: 21",
        "was_truncated: false",
        "note: more lines follow; go on with offset=21",
        "table: 500 × 5",
        "column | type | missing | first values",
        "id | int | 0 | 0, 1, 2",
        "size | float | 0 | 0.0, 0.5, 1.0",
        "name | str | 0 | Ham; 0, Ham; 1, Ham; 2",
        "day | date | 250 | 2026-01-31",
        "ok | bool | 0 | true",
        "",
    ]
    assert text_of(first).partition("content:\n")[2].startswith("id;size;name;day;ok\n0;0.0;")
    assert text_of(first).endswith('\n19;9.5;"Ham; 1";NA;true')
    assert text_of(second).endswith('content:\n99;49.5;"Ham; 0";NA;true')


async def test_blanks_around_a_columns_name_are_seen(project: Path, read):
    (project / "data.csv").write_text("id, size,day \n1, 2, x\n", encoding="utf-8")
    result = text_of(await read(path="data.csv"))
    assert "id | int | 0 | 1\n' size' | int | 0 | 2\n'day ' | str | 0 | x" in result


@pytest.mark.parametrize(
    "text", ["", "one column\n1\n", "a,b\n", 'a,b\n"' + "x" * 200_000 + "\n" * 50, "a,b\n1,2,3\n4\n\n"]
)
async def test_an_odd_csv_file_is_read_as_text(project: Path, read, text: str):
    (project / "odd.csv").write_text(text, encoding="utf-8")
    result = text_of(await read(path="odd.csv"))
    assert len(result) <= 8_000
    assert ("content:" in result) == bool(text)


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\n\n3,4\n\n\n",  # blank lines
        "a,b\n1\n2,3\n4,\n",  # a short row
        'a,b\n"x\ny",2\n"z",3\n',  # a value of two lines
        '"a\nc",b\r\n1,2\r\n\r\n',
        "a,b\nn/a,1\n#N/A,2\n<NA>,\n3,4\n  \n",  # as spreadsheets and pandas write what is missing
    ],
)
async def test_rows_and_missing_values_of_a_csv_file_are_those_that_pandas_reads(project: Path, read, text: str):
    import pandas

    (project / "data.csv").write_text(text, encoding="utf-8", newline="")
    frame = pandas.read_csv(project / "data.csv")

    told = text_of(await read(path="data.csv")).partition("content:\n")[0].split("\n")

    assert f"table: {frame.shape[0]} × {frame.shape[1]}" in told
    columns = [line.split(" | ") for line in told[told.index("column | type | missing | first values") + 1 : -1]]
    assert [int(missing) for _, _, missing, _ in columns] == list(frame.isna().sum())
    assert "xy" not in str(columns)


async def test_of_a_long_csv_file_the_first_rows_are_looked_at(project: Path, read):
    (project / "long.csv").write_text("a,b\n" + "1,2\n" * 1_500 + "x,y\n", encoding="utf-8")
    lines = text_of(await read(path="long.csv")).split("\n")
    assert "table: 2 columns, by the first 1,000 rows" in lines
    assert "b | int | 0 | 2" in lines


async def test_a_wide_csv_file_leaves_room_for_its_rows(project: Path, read):
    names = [f"column_number_{at}" for at in range(300)]
    (project / "wide.csv").write_text(",".join(names) + "\n" + ",".join("1" * 300) + "\n", encoding="utf-8")
    result = text_of(await read(path="wide.csv"))
    assert "table: 1 × 300" in result
    assert "… 240 more columns" in result
    assert len(result) <= 8_000


def test_a_parquet_file_is_described_where_a_library_is_loaded_and_named_where_none_is(tmp_path: Path):
    import polars as pl

    pl.DataFrame({"name": ["a", "b"], "size": [1.5, None]}).write_parquet(tmp_path / "data.parquet")
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from vibe_jupyter.errors import ToolError\n"
        "from vibe_jupyter.files.workspace import Workspace\n"
        "from vibe_jupyter.tools.contract import ToolContext\n"
        "from vibe_jupyter.tools.read_file import ReadFileArgs, ReadFileTool\n"
        "context = ToolContext('c', lambda text: None, lambda: False)\n"
        "tool, args = ReadFileTool(Workspace(Path(sys.argv[1]))), ReadFileArgs(path='data.parquet')\n"
        "try:\n    asyncio.run(tool.run(args, context))\nexcept ToolError as error:\n    print(error)\n"
        "for library in sys.argv[2:]:\n"
        "    __import__(library)\n"
        "    print(asyncio.run(ReadFileTool(tool._workspace).run(args, context)).parts[0].text)\n"
        "    del sys.modules[library]\n"
    )
    asked = [sys.executable, "-c", script, str(tmp_path), "polars", "pyarrow"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True)
    none, by_polars, by_pyarrow = re.split(r"\n(?=path: )", done.stdout)
    assert none == "'data.parquet' is a Parquet table, not text. Load it with run_code."
    fields = "path: data.parquet\nlines_read: 0\nwas_truncated: false\n"
    assert by_polars == (
        f"{fields}table: 2 columns\ncolumn | type | first values\nname | String | a, b\nsize | Float64 | 1.5, None"
    )
    assert by_pyarrow.startswith(f"{fields}table: 2 × 2\ncolumn | type | first values\nname | ")
    assert by_pyarrow.endswith("string | a, b\nsize | double | 1.5, None\n")


async def test_an_interrupted_read_of_a_huge_file_ends_early(project: Path, workspace: Workspace):
    (project / "huge.txt").write_bytes(b"line\n" * 3_000_000)
    asked: list[bool] = []

    def cancelled() -> bool:
        asked.append(True)
        return True

    context = ToolContext(call_id="1", progress=lambda text: None, cancelled=cancelled)
    await ReadFileTool(workspace).run(ReadFileArgs(path="huge.txt", offset=2_999_999), context)

    assert len(asked) == 1


@pytest.mark.requirement("tools.read_file.permission.default")
async def test_the_policy_is_told_the_path_as_the_model_gave_it(workspace: Workspace):
    tool = ReadFileTool(workspace)

    assert tool.level == "always"
    assert tool.touches(ReadFileArgs(path="~/x")) == (Resource(kind="path", value="~/x", access="read"),)
    assert set(tool_spec(tool).parameters["properties"]) == {"path", "offset", "limit"}


@pytest.mark.requirement("tools.read_file.outside.project")
@pytest.mark.parametrize(
    "path", ["../outside/secret.txt", "src/../../outside/secret.txt", "link_out", "link_up/outside/secret.txt"]
)
async def test_a_file_outside_the_project_is_not_read_unasked(tree: Path, path: str):
    workspace = Workspace(tree / "proj")
    permissions, tool = Permissions(workspace), ReadFileTool(workspace)

    decision = permissions.decide(tool, ReadFileArgs(path=path), RunTerms())

    assert isinstance(decision, Ask)
    assert "outside the project" in decision.reason
    assert isinstance(permissions.decide(tool, ReadFileArgs(path="README.md"), RunTerms()), Allow)


@pytest.mark.requirement("tools.read_file.result.truncated")
async def test_the_settings_bound_a_result(project: Path, workspace: Workspace, context: ToolContext):
    (project / "a.txt").write_text("one\ntwo\nthree\n" + "é" * 50 + "\nlast\n", encoding="utf-8")
    tool = ReadFileTool(workspace, options=ReadFileOptions(max_read_bytes=14))

    first = text_of(await tool.run(ReadFileArgs(path="a.txt"), context))
    long = text_of(await tool.run(ReadFileArgs(path="a.txt", offset=3), context))

    assert first.endswith("content:\none\ntwo\nthree")
    assert "was_truncated: true\nnote: more lines follow; a result holds 14 bytes; go on with offset=3" in first
    assert "was_truncated: true\nnote: more lines follow; a result holds 14 bytes; go on with offset=4" in long
    assert long.endswith("content:\néééééé")
    assert ReadFileOptions().max_read_bytes == 7_500
    assert ReadFileTool(workspace, options=ReadFileOptions(max_read_bytes=64_000)).result_limit >= 64_000
    assert ReadFileOptions(max_read_bytes=1).max_read_bytes == 1
    with pytest.raises(ValidationError):
        ReadFileOptions(max_read_bytes=0)


def png(width: int, height: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(out, format="PNG")
    return out.getvalue()


async def test_an_image_is_sent_to_a_model_that_sees(project: Path, workspace: Workspace, context: ToolContext):
    (project / "small.png").write_bytes(png(20, 10))
    (project / "large.png").write_bytes(png(3_000, 10))
    tool = ReadFileTool(workspace, sees_images=lambda: True)

    small = await tool.run(ReadFileArgs(path="small.png"), context)
    large = await tool.run(ReadFileArgs(path="large.png"), context)

    said, image = small.parts
    size = (project / "small.png").stat().st_size
    assert said == TextPart(text=f"path: small.png\nimage/png, {size} bytes; it follows")
    assert image == ImagePart(media_type="image/png", data=base64.b64encode(png(20, 10)).decode())
    assert "made smaller" in large.parts[0].text
    with Image.open(io.BytesIO(base64.b64decode(large.parts[1].data))) as opened:
        assert opened.size == (1_024, 3)


async def test_an_image_is_named_to_a_model_that_does_not_see(project: Path, read):
    (project / "a.png").write_bytes(png(20, 10))

    with pytest.raises(ToolError, match="is a PNG image, not text"):
        await read(path="a.png")


async def test_a_broken_image_is_refused_in_words(project: Path, workspace: Workspace, context: ToolContext):
    (project / "a.jpg").write_bytes(b"\xff\xd8\xff" + b"no image" * 10)

    with pytest.raises(ToolError, match=r"'a\.jpg' is an image that cannot be sent.*Make a smaller copy"):
        await ReadFileTool(workspace, sees_images=lambda: True).run(ReadFileArgs(path="a.jpg"), context)


MEMORY = """
import asyncio, resource, sys
from pathlib import Path
from vibe_jupyter.errors import ToolError
from vibe_jupyter.tools.contract import ToolContext
from vibe_jupyter.tools.read_file import ReadFileTool, ReadFileArgs
from vibe_jupyter.files.workspace import Workspace
context = ToolContext(call_id="1", progress=print, cancelled=lambda: False)
tool = ReadFileTool(Workspace(Path(sys.argv[1])))
asyncio.run(tool.run(ReadFileArgs(path="small.txt"), context))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path, offset in (("huge.txt", 0), ("huge.txt", 20_100), ("huge.ipynb", 0), ("huge.bin", 0)):
    try:
        result = asyncio.run(tool.run(ReadFileArgs(path=path, offset=offset), context))
        print(len(result.parts[0].text))
    except ToolError as error:
        print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


async def test_a_file_of_a_gibibyte_costs_no_memory(project: Path):
    (project / "small.txt").write_text("x", encoding="utf-8")
    for name in ("huge.txt", "huge.ipynb", "huge.bin"):
        with (project / name).open("wb") as file:
            file.write(b"text\n" * 20_000 if name != "huge.bin" else b"")
            file.truncate(2**30)

    done = subprocess.run(
        [sys.executable, "-c", MEMORY, project], capture_output=True, text=True, timeout=110, check=True
    )

    *said, grown = done.stdout.splitlines()
    assert int(said[0]) > 7_000
    assert int(said[1]) < 200
    assert int(said[2]) > 7_000
    assert said[3] == "'huge.bin' is a binary file, not text. Load it with run_code."
    assert int(grown) < 8_000, f"{grown} KiB more"
