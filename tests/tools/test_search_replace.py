"""search_replace: exact, exactly once, all or nothing; every other byte stays."""

import base64
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.patience import patient
from tests.tools.conftest import CORPORA, snapshot
from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.access import FileAccess
from vibe_jupyter.files.edits import EditError
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.protocol import Allow, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext, tool_spec
from vibe_jupyter.tools.search_replace import SearchReplaceArgs, SearchReplaceOptions, SearchReplaceTool

CASES: list[dict[str, Any]] = [
    json.loads(line) for line in (CORPORA / "search_replace.jsonl").read_text(encoding="utf-8").splitlines()
]
KINDS = {
    "file_missing": "does not exist|was not found",
    "not_a_file": "is a folder|is a device",
    "empty_path": "The path is empty",
}
"""Refusals of paths, by their words."""


def block(search: str, replace: str, signs: int = 7) -> str:
    return f"{'<' * signs} SEARCH\n{search}\n{'=' * signs}\n{replace}\n{'>' * signs} REPLACE\n"


@pytest.fixture
def edit(files: FileAccess, context: ToolContext):
    async def call(path: str, content: str, **options: Any) -> ToolResult:
        tool = SearchReplaceTool(files, SearchReplaceOptions(**options))
        args = SearchReplaceArgs(file_path=path, content=content)
        await tool.precheck(args)
        return await tool.run(args, context)

    return call


def text_of(result: ToolResult) -> str:
    (part,) = result.parts
    assert isinstance(part, TextPart)
    return part.text


# ---- the corpus ----
async def outcome(project: Path, case: dict[str, Any], context: ToolContext) -> dict[str, object]:
    """What the product does with a case, in the corpus's words."""
    workspace = Workspace(project)
    tool = SearchReplaceTool(FileAccess(workspace))
    path = case.get("path", "file.txt")
    try:
        args = SearchReplaceArgs(file_path=path, content=case["content"])
        permissions = Permissions(workspace, levels={"search_replace": "always"})
        if not isinstance(permissions.decide(tool, args, RunTerms()), Allow) and path.strip():
            return {"error": "outside_project"}
        result = await tool.run(args, context)
    except ValidationError as error:
        return {"error": "empty_path" if "file_path" in str(error) else "empty_content"}
    except EditError as error:
        return {"error": error.kind, "message": str(error)}
    except ToolError as error:
        return {"error": next(kind for kind, words in KINDS.items() if re.search(words, str(error)))}
    return {
        "result": (project / path).read_bytes().decode("utf-8", "surrogateescape"),
        "blocks_applied": result.details["blocks_applied"],
    }


@pytest.mark.requirement("tools.search_replace.blocks.format", "tools.search_replace.blocks.malformed")
@pytest.mark.parametrize("case", CASES, ids=[f"{case['id']}: {case['title']}" for case in CASES])
async def test_an_edit_comes_out_as_the_corpus_says(tree: Path, context: ToolContext, case: dict[str, Any]):
    project = tree / "proj"
    if case.get("file_b64"):
        (project / "file.txt").write_bytes(base64.b64decode(case["file_b64"]))
    elif case.get("file") is not None:
        (project / "file.txt").write_bytes(case["file"].encode())
    before = snapshot(tree)

    came = await outcome(project, case, context)

    message = came.pop("message", "")
    wanted = [case["expect"], *case["accept"]]
    assert came in wanted or ("error" in came and {"error": "*"} in wanted), message
    if "error" in came:
        assert snapshot(tree) == before
    if case.get("hint") == "near_miss":
        assert "closest passage" in str(message)


# ---- what the file keeps ----
@pytest.mark.requirement("tools.search_replace.bytes.kept")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nold\r\nb\r\n", b"a\r\nnew\r\nmore\r\nb\r\n"),
        (b"a\nold\nb", b"a\nnew\nmore\nb"),
        (b"\xef\xbb\xbfold\nb\n", b"\xef\xbb\xbfnew\nmore\nb\n"),
        (b"a\r\nold\nb\rc\r\n", b"a\r\nnew\nmore\nb\rc\r\n"),
        (b"x\0\x0b\x0c\r\r\nold", b"x\0\x0b\x0c\r\r\nnew\r\nmore"),
        ("\u2028old\u0085\xe9".encode(), "\u2028new\nmore\u0085\xe9".encode()),
        (b"\xff\xfe" + "a\r\nold\r\n".encode("utf-16-le"), b"\xff\xfe" + "a\r\nnew\r\nmore\r\n".encode("utf-16-le")),
        (b"\xfe\xff" + "old\U0001f600".encode("utf-16-be"), b"\xfe\xff" + "new\nmore\U0001f600".encode("utf-16-be")),
        (b"\xff\xfe\0\0" + "old".encode("utf-32-le"), b"\xff\xfe\0\0" + "new\nmore".encode("utf-32-le")),
    ],
)
async def test_encoding_line_ends_and_all_other_bytes_stay(project: Path, edit, before: bytes, after: bytes):
    (project / "f").write_bytes(before)

    await edit("f", block("old", "new\nmore"))

    assert (project / "f").read_bytes() == after


@pytest.mark.parametrize(("end", "sent"), [("\r\n", "\n"), ("\n", "\r\n"), ("\r\n", "\r\n")])
async def test_lines_are_found_whatever_line_ends_were_sent(project: Path, edit, end: str, sent: str):
    (project / "f").write_bytes(end.join(["a", "b", "c", ""]).encode())

    await edit("f", block("a\nb", "x\ny\nz").replace("\n", sent))

    assert (project / "f").read_bytes() == end.join(["x", "y", "z", "c", ""]).encode()


async def test_mode_and_owner_stay_and_a_new_inode_takes_the_place(project: Path, edit):
    (project / "run.sh").write_text("echo old\n", encoding="utf-8")
    (project / "run.sh").chmod(0o750)
    if os.geteuid() == 0:
        os.chown(project / "run.sh", 12_345, 54_321)
    before = (project / "run.sh").stat()

    await edit("run.sh", block("old", "new"))

    after = (project / "run.sh").stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert after.st_ino != before.st_ino
    assert os.listdir(project) == ["run.sh"]


async def test_another_name_of_the_file_keeps_the_old_content_and_it_is_said(project: Path, tmp_path: Path, edit):
    (tmp_path / "outside.txt").write_text("old\n", encoding="utf-8")
    (project / "f").hardlink_to(tmp_path / "outside.txt")

    result = await edit("f", block("old", "new"))

    assert (tmp_path / "outside.txt").read_text(encoding="utf-8") == "old\n"
    assert "warning: the file had other names (hard links); they keep the old content" in text_of(result)


# ---- what comes back ----
@pytest.mark.requirement("tools.search_replace.result.fields", "tools.search_replace.blocks.order")
async def test_blocks_apply_in_order_each_on_the_result_of_those_before(project: Path, edit):
    (project / "f").write_text("one\ntwo\nthree\n", encoding="utf-8")
    content = block("one", "1\n1b") + "and then\n" + block("1b\ntwo", "2") + block("three", "3")

    result = await edit("f", content)

    assert (project / "f").read_text(encoding="utf-8") == "1\n2\n3\n"
    assert text_of(result) == "file: f\nblocks_applied: 3\nlines_changed: 5\ncontent: as given, at line 1, 2, 3"
    assert result.summary == "+3 −3"
    assert result.details == {
        "file": "f",
        "blocks_applied": 3,
        "lines_changed": 5,
        "content": content,
        "warnings": [],
    }


@pytest.mark.requirement("tools.search_replace.args.fields")
async def test_one_replacement_may_come_as_old_and_new_string(project: Path, files: FileAccess, context: ToolContext):
    (project / "f").write_text("a b a", encoding="utf-8")
    tool = SearchReplaceTool(files)

    args = SearchReplaceArgs(file_path="f", old_string="b", new_string="c")
    await tool.run(args, context)
    every = SearchReplaceArgs(file_path="f", old_string="a", new_string="d", replace_all=True)
    await tool.run(every, context)

    assert (project / "f").read_text(encoding="utf-8") == "d c d"
    schema = tool_spec(tool).parameters
    assert (list(schema["properties"]), schema["required"]) == (["file_path", "content"], ["file_path", "content"])
    for wrong in ({}, {"file_path": ""}, {"file_path": "f", "old_string": "x"}, {"file_path": "f", "more": 1}):
        with pytest.raises(ValidationError):
            SearchReplaceArgs.model_validate(wrong)


# ---- what is refused ----
@pytest.mark.requirement("tools.search_replace.match.multiple")
async def test_text_that_stands_there_twice_is_an_error_with_the_count_and_the_lines(project: Path, edit):
    (project / "f").write_text("x\ny\nx\nx\n", encoding="utf-8")

    with pytest.raises(EditError, match=r"ambiguous: it occurs 3 times \(lines 1, 3, 4\)") as refused:
        await edit("f", block("x", "z"))
    assert "Around the first:\n     1  x\n     2  y\n" in str(refused.value)


@pytest.mark.requirement("tools.search_replace.match.exact")
@pytest.mark.parametrize("search", ["  return x", "\treturn x", "return  x", "RETURN x", "return x ", "return\nx"])
async def test_blanks_indentation_line_ends_and_case_count(project: Path, edit, search: str):
    (project / "f").write_bytes(b"def f():\n return x\n")

    with pytest.raises(EditError) as refusal:
        await edit("f", block(search, "pass"))

    assert refusal.value.kind == "not_found"
    assert (project / "f").read_bytes() == b"def f():\n return x\n"


@pytest.mark.requirement("tools.search_replace.match.none", "tools.search_replace.match.fuzzy")
async def test_a_near_miss_is_shown_with_its_lines_and_the_difference_and_never_applied(project: Path, edit):
    text = "".join(f"line {number}\n" for number in range(9)) + "def total(rows):\n    return sum(rows)\n"
    (project / "f").write_text(text, encoding="utf-8")

    with pytest.raises(EditError) as refusal:
        await edit("f", block("def total(row):\n    return sum(rows)", "pass"))

    assert str(refusal.value) == (
        "The SEARCH text was not found in the file. Nothing was changed. The closest passage (98% alike) is on lines "
        "10 to 11:\n     7  line 6\n     8  line 7\n     9  line 8\n    10  def total(rows):\n"
        "    11      return sum(rows)\n    12  \n"
        "From the SEARCH text (-) to the file (+):\n@@ -1,2 +1,2 @@\n-def total(row):\n+def total(rows):\n"
        "     return sum(rows)"
    )
    assert (project / "f").read_text(encoding="utf-8") == text


@pytest.mark.requirement("tools.search_replace.match.fuzzy")
@pytest.mark.parametrize(("threshold", "shown"), [(0.5, True), (0.99, False), (0.0, True), (1.0, False)])
async def test_the_threshold_decides_which_near_miss_is_shown(project: Path, edit, threshold: float, shown: bool):
    (project / "f").write_text("alpha beta gamma\n", encoding="utf-8")

    with pytest.raises(EditError) as refusal:
        await edit("f", block("alpha bets gamma", "x"), fuzzy_threshold=threshold)

    assert ("The closest passage" in str(refusal.value)) is shown
    assert SearchReplaceOptions().fuzzy_threshold == 0.9


@pytest.mark.requirement("tools.search_replace.match.nearest")
async def test_below_the_threshold_the_nearest_passage_is_shown_without_a_comparison(project: Path, edit):
    text = "import a\n\ndef total_price(items):\n    result = 0\n    for item in items:\n        result += item.price\n"
    (project / "f").write_text(text + "other = 1\n" * 20, encoding="utf-8")
    wanted = "def total(xs):\n    sum = 0\n    for x in xs:\n        sum += x.price"

    with pytest.raises(EditError, match=r"nearest \(7\d%\) is lines 3 to 6:") as refusal:
        await edit("f", block(wanted, "pass"))

    assert "     6          result += item.price" in str(refusal.value)
    with pytest.raises(EditError, match="blanks and indentation count"):
        await edit("f", block("lambda q: zz(q) * 4711", "pass"))


async def test_what_only_differs_in_blanks_is_always_a_near_miss(project: Path, edit):
    (project / "f").write_text("if x:\n\treturn 1\n", encoding="utf-8")

    with pytest.raises(EditError, match=r"closest passage \(only blanks or capitals differ\) is on lines 1 to 2"):
        await edit("f", block("if x:\n    return 1", "y"), fuzzy_threshold=1.0)


@pytest.mark.parametrize(
    ("line", "search"),
    [
        ("value_{n} = compute({n})", "\n".join(f"value_{n} = compote({n})" for n in range(60))),
        ("", "\n" * 20_000 + "x"),
        ("{{}}" * 200, ("{}" * 201 + "\n") * 200),
    ],
)
async def test_looking_for_a_near_miss_in_a_large_file_is_bounded(project: Path, edit, line: str, search: str):
    (project / "f").write_text("".join(f"{line.format(n=n % 97)}\n" for n in range(60_000)), encoding="utf-8")
    started = time.monotonic()

    with pytest.raises(EditError):
        await edit("f", block(search, "x"))

    assert time.monotonic() - started < patient(30)


@pytest.mark.requirement("tools.search_replace.blocks.atomic")
@pytest.mark.parametrize(
    "last", [block("missing", "x"), block("b", "x"), block("", "x"), block("a", "a"), "<<<<<<< SEARCH\na"]
)
async def test_one_block_that_fails_leaves_the_file_as_it_was(project: Path, edit, last: str):
    (project / "f").write_text("a\nb\nb\n", encoding="utf-8")
    before = snapshot(project)

    with pytest.raises(EditError):
        await edit("f", block("a\n", "c\n") + last, create_backup=True)

    assert snapshot(project) == before


@pytest.mark.parametrize(
    ("content", "after"),
    [
        (block("Title\n=====", "Head\n====="), "Head\n=====\ntext\n"),
        (block("text", "text\n=======", 9), "Title\n=====\ntext\n=======\n"),
        (block("text", "Sub\n======="), "Title\n=====\nSub\n=======\n"),
        (block("text", block("in", "side").rstrip("\n"), 8), f"Title\n=====\n{block('in', 'side')}"),
        ("<<<<<<< SEARCH  \ntext\n=====\nnew\n>>>>>>>>> REPLACE\t", "Title\n=====\nnew\n"),
    ],
)
async def test_lines_that_look_like_markers_are_text_where_only_one_reading_fits(
    project: Path, edit, content: str, after: str
):
    (project / "f").write_text("Title\n=====\ntext\n", encoding="utf-8")

    await edit("f", content)

    assert (project / "f").read_text(encoding="utf-8") == after


@pytest.mark.requirement("tools.search_replace.blocks.malformed")
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (block("Title\n=======", "Head"), "malformed"),
        (block("text", "x") + ">>>>>>> REPLACE\n", "malformed"),
        (block("text", "x") + "<<<<<<< SEARCH\nTitle\n=======\n", "malformed"),
        (block("text", "x") + "<<<<<<< SEARCH\nTitle\n" + block("text", "y"), "malformed"),
        (block("text", "x") + "<<<<<<< SEARCH\nTitle\n>>>>>>> REPLACE\n", "malformed"),
        ("  <<<<<<< SEARCH\ntext\n  =======\nx\n  >>>>>>> REPLACE", "no_blocks"),
        ("<<<< SEARCH\ntext\n====\nx\n>>>> REPLACE", "no_blocks"),
        ("just words", "no_blocks"),
        (" \n", "empty_content"),
        ("", "empty_content"),
    ],
)
async def test_blocks_that_are_cut_or_can_be_read_in_two_ways_are_errors(project: Path, edit, content: str, kind: str):
    (project / "f").write_text("Title\n=======\ntext\n", encoding="utf-8")

    with pytest.raises(EditError) as refusal:
        await edit("f", content)

    assert refusal.value.kind == kind
    assert (project / "f").read_text(encoding="utf-8") == "Title\n=======\ntext\n"


@pytest.mark.requirement("tools.search_replace.error.file")
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("missing.txt", "'missing.txt' does not exist"),
        ("src", "'src' is a folder, not a file"),
        ("pipe", "is a device, pipe or socket"),
        ("latin.txt", "'latin.txt' cannot be decoded as UTF-8"),
        ("locked.txt", "'locked.txt' is read-only"),
        ("README.md/x", "which is a file and not a folder"),
    ],
)
async def test_a_file_that_cannot_be_edited_is_refused_in_words(tree: Path, context: ToolContext, path: str, said: str):
    project = tree / "proj"
    (project / "latin.txt").write_bytes(b"caf\xe9 a\n")
    (project / "locked.txt").write_text("a\n", encoding="utf-8")
    (project / "locked.txt").chmod(0o444)
    before = snapshot(tree)
    tool = SearchReplaceTool(FileAccess(Workspace(project)))

    with pytest.raises(ToolError) as refusal:
        await tool.run(SearchReplaceArgs(file_path=path, content=block("a", "b")), context)

    assert said in str(refusal.value)
    assert snapshot(tree) == before


@pytest.mark.requirement("tools.search_replace.limit.bytes")
@pytest.mark.parametrize("over", [0, 1])
async def test_blocks_over_the_limit_are_refused(project: Path, edit, over: int):
    (project / "f").write_text("a\n", encoding="utf-8")
    content = block("a", "é" * 20)
    limit = len(content.encode()) - over

    if not over:
        await edit("f", content, max_content_size=limit)
        return
    with pytest.raises(EditError) as refusal:
        await edit("f", content, max_content_size=limit)
    assert refusal.value.kind == "too_large"
    assert SearchReplaceOptions().max_content_size == 100_000


@pytest.mark.requirement("tools.search_replace.backup.bak")
async def test_the_old_file_is_kept_only_if_that_is_set(project: Path, edit):
    (project / "f.py").write_text("a\n", encoding="utf-8")
    (project / "f.py").chmod(0o640)

    await edit("f.py", block("a", "b"))
    assert os.listdir(project) == ["f.py"]
    await edit("f.py", block("b", "c"), create_backup=True)

    assert {path.name: path.read_text(encoding="utf-8") for path in project.iterdir()} == {
        "f.py": "c\n",
        "f.py.bak": "b\n",
    }
    assert (project / "f.py.bak").stat().st_mode & 0o777 == 0o640


async def test_a_link_in_place_of_the_backup_is_replaced_and_not_followed(project: Path, tmp_path: Path, edit):
    (tmp_path / "outside.txt").write_text("precious", encoding="utf-8")
    (project / "f").write_text("a\n", encoding="utf-8")
    (project / "f.bak").symlink_to(tmp_path / "outside.txt")

    await edit("f", block("a", "b"), create_backup=True)

    assert (tmp_path / "outside.txt").read_text(encoding="utf-8") == "precious"
    assert (project / "f.bak").read_text(encoding="utf-8") == "a\n"


# ---- what the user is shown ----
async def test_the_card_shows_the_change_in_its_place(project: Path, files: FileAccess):
    (project / "f").write_bytes(b"".join(b"line %d\r\n" % number for number in range(9)))
    tool = SearchReplaceTool(files)

    shown = tool.preview(SearchReplaceArgs(file_path="f", content=block("line 4", "four")))

    assert (shown.kind, shown.edits) == ("diff", "content")
    assert shown.text == "@@ -2,7 +2,7 @@\n line 1\n line 2\n line 3\n-line 4\n+four\n line 5\n line 6\n line 7"
    assert shown.made_from


@pytest.mark.requirement("tools.search_replace.outside.project")
@pytest.mark.parametrize("path", ["../outside/secret.txt", "link_out", ".env", "~/.ssh/id_rsa", "pipe"])
async def test_a_file_that_asks_is_not_opened_before_it_is_allowed(tree: Path, path: str):
    workspace = Workspace(tree / "proj")
    tool = SearchReplaceTool(FileAccess(workspace))
    args = SearchReplaceArgs(file_path=path, content=block("guess", "x"))
    started = time.monotonic()

    if path != "pipe":
        await tool.precheck(args)
    shown = tool.preview(args)

    assert time.monotonic() - started < patient(20)
    assert not isinstance(
        Permissions(workspace, levels={"search_replace": "always"}).decide(tool, args, RunTerms()), Allow
    )
    if path != "pipe":
        assert shown.text == "@@ -1 +1 @@\n-guess\n+x"
        assert shown.made_from.startswith("status:")


async def test_an_allowed_edit_that_does_not_fit_shows_nothing_of_a_file_with_secrets(
    project: Path, files: FileAccess, context: ToolContext
):
    (project / ".env").write_text("KEY=TOPSECRET\n", encoding="utf-8")
    tool = SearchReplaceTool(files)

    with pytest.raises(EditError) as refusal:
        await tool.run(SearchReplaceArgs(file_path=".env", content=block("KEY=TOPSECRETS", "x")), context)

    assert str(refusal.value).endswith("Nothing was changed. Read the file again; blanks and indentation count.")


async def test_the_policy_is_told_of_the_file_and_of_its_backup(files: FileAccess):
    args = SearchReplaceArgs(file_path="~/x", content="")
    keeping = SearchReplaceTool(files, SearchReplaceOptions(create_backup=True))

    assert SearchReplaceTool(files).level == "ask"
    assert list(SearchReplaceTool(files).touches(args)) == [Resource(kind="path", value="~/x", access="write")]
    assert [one.value for one in keeping.touches(args)] == ["~/x", "~/x.bak"]


async def test_an_edit_that_no_longer_fits_shows_why(project: Path, files: FileAccess):
    (project / "f").write_text("other\n", encoding="utf-8")

    shown = SearchReplaceTool(files).preview(SearchReplaceArgs(file_path="f", content=block("a", "b")))

    assert shown == Preview(
        kind="text",
        text="The SEARCH text was not found in the file. Nothing was changed. "
        "Read the file again; blanks and indentation count.",
    )


@pytest.mark.parametrize(
    ("search", "replace", "counted"), [("two\n", "2\nII\nzwei\n", "+3 −1"), ("two\nthree\n", "2\n", "+1 −2")]
)
async def test_the_summary_counts_added_and_removed_lines_apart(
    project: Path, edit, search: str, replace: str, counted: str
):
    (project / "f").write_text("one\ntwo\nthree\n", encoding="utf-8")

    result = await edit("f", f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE")

    assert result.summary == counted
