"""The rules of an edit, on texts nobody thought of: as a naive reference says, or the file is as it was."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tools.conftest import snapshot
from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.access import FileAccess, unified_diff
from vibe_jupyter.files.edits import EditError, apply_blocks, parse_blocks
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.tools.contract import ToolContext
from vibe_jupyter.tools.search_replace import SearchReplaceArgs, SearchReplaceTool

LINES = st.sampled_from(
    ["", "a", "b", "ab", "  a", "\ta", "x = 1", "=====", "é日", "\u2028", "\ufeff", "`y`", "\\1 \\g<0>"]
)
TEXTS = st.lists(LINES, max_size=8).map("\n".join)
ENDS = st.sampled_from(["", "\n"])


@st.composite
def texts_and_edits(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]]]:
    """A text, and edits of which most look for something that stands in it."""
    text = (draw(TEXTS) + draw(ENDS)).lstrip("\ufeff")  # at the beginning it is no text but a mark
    edits: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(text) - 1)))
        slices = st.integers(at + 1, at + 12).map(lambda end, at=at: text[at:end])
        edits.append((draw(st.one_of(slices, slices, TEXTS)), draw(TEXTS)))
    return text, edits


DEFAULT = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def reference(text: str, edits: list[tuple[str, str]]) -> str | None:
    """One after another, each exactly once; None where that cannot be done."""
    result = text
    for search, replace in edits:
        if not search or search == replace or result.count(search) != 1:
            return None
        before, _, after = result.partition(search)
        result = before + replace + after
    return None if result == text else result


def blocks(edits: list[tuple[str, str]]) -> str:
    """With markers of nine signs, which no line of the texts looks like."""
    marks = "<" * 9, "=" * 9, ">" * 9
    return "".join(f"{marks[0]} SEARCH\n{one}\n{marks[1]}\n{two}\n{marks[2]} REPLACE\n" for one, two in edits)


@pytest.mark.requirement("tools.search_replace.match.exact", "tools.search_replace.bytes.kept")
@given(case=texts_and_edits())
@DEFAULT
async def test_any_edit_is_as_the_naive_reference_says_or_the_file_stays(
    tmp_path: Path, case: tuple[str, list[tuple[str, str]]]
):
    place, (text, edits) = tmp_path / "f", case
    place.write_bytes(text.encode())
    before, wanted = snapshot(tmp_path), reference(text, edits)
    context = ToolContext(call_id="1", progress=lambda said: None, cancelled=lambda: False)
    tool = SearchReplaceTool(FileAccess(Workspace(tmp_path)))

    try:
        await tool.run(SearchReplaceArgs(file_path="f", content=blocks(edits)), context)
    except ToolError:
        assert wanted is None
        assert snapshot(tmp_path) == before
    else:
        assert place.read_bytes().decode() == wanted


@given(before=TEXTS, between=TEXTS, after=TEXTS, search=TEXTS, replace=TEXTS, crlf=st.booleans())
@DEFAULT
def test_only_the_place_that_was_found_changes(
    before: str, between: str, after: str, search: str, replace: str, crlf: bool
):
    text = f"{before}\n{between}\n{search}|\n{after}"
    text = text.replace("\n", "\r\n") if crlf else text
    try:
        edited = apply_blocks(text, parse_blocks(blocks([(f"{search}|", replace)])), threshold=0.9).text
    except EditError:
        return
    head, tail = (f"{before}\n{between}\n", f"\n{after}")
    head, tail = (part.replace("\n", "\r\n") if crlf else part for part in (head, tail))
    assert edited.startswith(head)
    assert edited.endswith(tail)
    assert not crlf or edited.count("\r\n") == edited.count("\n")


@given(content=st.text(st.sampled_from("<>=SEARCHREPLACE \n\ra"), max_size=120) | st.text(max_size=80))
@DEFAULT
def test_no_content_makes_the_parser_fail_in_another_way(content: str):
    try:
        found = parse_blocks(content)
    except EditError:
        return
    markers = re.compile(r"<{5,} SEARCH[ \t]*\r?|>{5,} REPLACE[ \t]*\r?")
    assert 2 * len(found) <= sum(markers.fullmatch(line) is not None for line in content.split("\n"))


@given(old=TEXTS, new=TEXTS, ends=st.tuples(ENDS, ENDS), context=st.integers(0, 4))
@DEFAULT
def test_a_shown_difference_leads_from_the_old_text_to_the_new_one(
    old: str, new: str, ends: tuple[str, str], context: int
):
    old, new = old + ends[0], new + ends[1]

    shown = unified_diff(old, new, context)

    assert patched(old, shown) == new
    assert (shown == "") is (old == new)


def patched(old: str, change: str) -> str:
    """Apply a unified diff, by the book."""
    lines, result, at = _lines(old), list[str](), 0
    shown = change.split("\n") if change else []
    for number, line in enumerate(shown):
        no_end = number + 1 < len(shown) and shown[number + 1].startswith("\\ No newline")
        text = line[1:] + ("" if no_end else "\n")
        if line.startswith("@@"):
            first, count = re.match(r"@@ -(\d+)(?:,(\d+))?", line).groups()
            start = int(first) - 1 if count is None or int(count) else int(first)
            result += lines[at:start]
            at = start
        elif line.startswith("+"):
            result.append(text)
        elif line.startswith(("-", " ")):
            assert lines[at] == text
            at += 1
            result += [text] if line.startswith(" ") else []
    return "".join([*result, *lines[at:]])


def _lines(text: str) -> list[str]:
    """Lines with their ends, by LF alone."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
