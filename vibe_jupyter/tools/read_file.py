"""The tool `read_file`: lines of a text file, cells of a notebook file, or an image."""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, Final

from pydantic import ConfigDict, Field

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.access import ReadMemory
from vibe_jupyter.files.data_tables import is_text_table, parquet_lines, text_table_lines
from vibe_jupyter.files.images import read_image
from vibe_jupyter.files.path_arguments import PathArguments
from vibe_jupyter.files.text_file import (
    LONG_LINE,
    PAGE_LIMIT,
    TextLines,
    TextPage,
    binary_kind,
    notebook_lines,
    read_page,
    text_encoding,
)
from vibe_jupyter.files.truncation import RESULT_LIMIT, head_and_tail, is_spill_handle, kept_file
from vibe_jupyter.files.workspace import Located, Workspace
from vibe_jupyter.protocol import Headline, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.contract import Tool, ToolContext, ToolOptions

# Reads this kernel's own notebook in its unsaved state; returns None if the path is another file.
OwnNotebook = Callable[[Path, ToolContext], Awaitable[ToolResult | None]]
_SAID: Final = 500  # characters reserved for the notes of a result
# Lines of a CSV file by default: the header and 20 rows; the schema before them is inferred from more rows
_TABLE_LINES: Final = 21
_PARQUET_ROWS: Final = 5  # leading rows shown of a Parquet file
_AGAIN: Final = "read a short while ago, and unchanged since"
_NOTEBOOK_NOTE: Final = "a notebook, shown as the sources of its cells"


class ReadFileOptions(ToolOptions):
    """Settings in ``[tools.read_file]``."""

    max_read_bytes: int = Field(default=PAGE_LIMIT, ge=1)  # bytes of text in one result


class ReadFileArgs(PathArguments):
    """Which lines of which file."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(min_length=1)
    offset: int = Field(default=0, ge=0)
    limit: int | None = Field(default=None, ge=1)


class ReadFileTool(Tool[ReadFileArgs]):
    """Reads text files up to a size. Opens exactly the file that was approved."""

    name = "read_file"
    description = (
        "Read a text file, or the cells of an .ipynb; of .csv and .parquet columns, types and first rows. Long files "
        "come in pages: offset counts lines, from 0."
    )
    level = "always"
    arguments = ReadFileArgs
    without_values = "of code files"

    def __init__(
        self,
        workspace: Workspace,
        own_notebook: OwnNotebook | None = None,
        *,
        options: ReadFileOptions | None = None,
        sees_images: Callable[[], bool] = lambda: False,
        session_folder: Callable[[], Path | None] = lambda: None,
        memory: ReadMemory | None = None,
    ) -> None:
        self._workspace = workspace
        self._own_notebook = own_notebook  # None if no notebook is attached
        self._options = options or ReadFileOptions()
        self._sees_images = sees_images  # returns whether the current model accepts images
        self._session_folder = session_folder  # returns the folder with long results of this conversation
        self._memory = memory or ReadMemory()
        self.result_limit = max(self._options.max_read_bytes + _SAID, RESULT_LIMIT)  # one page and the notes

    def headline(self, args: ReadFileArgs) -> Headline:
        note = _lines_wanted(args) if args.offset or args.limit else ""
        return Headline(verb="Read", doing="Reading", asking="Read", target=args.path, note=note)

    def preview(self, args: ReadFileArgs) -> Preview:
        return Preview(kind="text", text=f"Read {args.path}, {_lines_wanted(args)}, and send it to the model.")

    def touches(self, args: ReadFileArgs) -> Sequence[Resource]:
        # A stored long result belongs to the conversation and needs no approval.
        return () if is_spill_handle(args.path) else (Resource(kind="path", value=args.path, access="read"),)

    async def run(self, args: ReadFileArgs, context: ToolContext) -> ToolResult:
        if self._own_notebook is not None and not is_spill_handle(args.path):
            # The open notebook is newer than its saved file.
            shown = await self._own_notebook(self._locate_file(args).path, context)
            if shown is not None:
                return shown
        return await asyncio.to_thread(self._read_located, args, context)

    def _read_located(self, args: ReadFileArgs, context: ToolContext) -> ToolResult:
        located = self._locate_kept(args.path) if is_spill_handle(args.path) else self._locate_file(args)
        shown = args.path if is_spill_handle(args.path) else located.shown
        with self._workspace.open_read(located) as file:
            status = os.fstat(file.fileno())
            self._memory.saw(located.path, status)
            if self._sees_images() and (image := read_image(file, args.path)) is not None:
                text = f"path: {shown}\n{image.said}"
                return ToolResult(parts=(TextPart(text=text), image.part), summary="image", details={"path": shown})
            found = self._page_of(file, located, args, context)
            again = self._memory.reads_again(located.path, status, (args.offset, args.limit))
        return _read_result(shown, found._replace(notes=(*found.notes, _AGAIN)) if again else found)

    def _locate_file(self, args: ReadFileArgs) -> Located:
        return args.settle(self._workspace, (args.path,))[args.path]

    def _locate_kept(self, handle: str) -> Located:
        place = kept_file(handle, self._session_folder())
        if place is None:
            raise ToolError(f"{handle!r}: no result is kept under that name in this conversation. Make the call again.")
        return self._workspace.resolve(str(place.absolute()))._replace(given=handle)

    def _page_of(self, file: BinaryIO, located: Located, args: ReadFileArgs, context: ToolContext) -> TextPage:
        room, path = self._options.max_read_bytes, located.path
        cells = notebook_lines(file) if path.suffix == ".ipynb" else None
        if cells is not None:
            return _with_notes(read_page(cells, args.offset, args.limit, room=room), (_NOTEBOOK_NOTE,), room)
        encoding = text_encoding(file)
        if encoding is None and path.suffix == ".parquet" and (table := parquet_lines(file, _PARQUET_ROWS)):
            return TextPage((), 0, end=True, is_cut=False, total=0, table=_lines_within(table, room))
        if encoding is None:
            file.seek(0)
            raise ToolError(f"{args.path!r} is {binary_kind(file)}, not text. Load it with run_code.")
        is_table = is_text_table(path) and not args.offset
        table = _lines_within(text_table_lines(file, path, context.cancelled), room // 2) if is_table else ()
        room -= sum(map(_size_of_line, table))
        limit = args.limit or (_TABLE_LINES if table else None)
        with closing(TextLines(file, encoding, context.cancelled)) as lines:
            found = read_page(iter(lines), args.offset, limit, room=room)
        return _with_notes(found, lines.notes, room)._replace(table=table)


def _size_of_line(line: str) -> int:
    return len(line.encode("utf-8", "replace")) + 1


def _lines_within(lines: Sequence[str], room: int) -> tuple[str, ...]:
    """Return as many leading lines as fit."""
    ends = itertools.accumulate(map(_size_of_line, lines))
    return tuple(line for line, end in zip(lines, ends, strict=True) if end <= room)


def _with_notes(found: TextPage, notes: tuple[str, ...], room: int) -> TextPage:
    return found._replace(notes=notes + tuple(_page_advice(found, room)))


def _page_advice(found: TextPage, room: int) -> Iterator[str]:
    read = len(found.lines)
    if found.end and not found.total:
        yield "the file is empty"
    elif found.end and not read:
        lines = "1 line" if found.total == 1 else f"{found.total:,} lines"
        yield f"offset {found.offset:,} is behind the last line; the file has {lines}"
    if not found.end:
        size = f" a result holds {room:,} bytes;" if found.is_cut else ""
        yield f"more lines follow;{size} go on with offset={found.offset + read}"
    if any(len(line) > LONG_LINE for line in found.lines):
        yield f"lines longer than {LONG_LINE:,} characters were cut"


def _read_result(shown: str, found: TextPage) -> ToolResult:
    read = len(found.lines)
    fields = [
        f"path: {shown}",
        f"lines_read: {read}",
        f"was_truncated: {'true' if found.is_cut else 'false'}",
        *(f"note: {note}" for note in found.notes),
        *found.table,
    ]
    content = "\n".join(found.lines)
    text = "\n".join([*fields, "content:", content]) if read else "\n".join(fields)
    return ToolResult(
        parts=(TextPart(text=text),),
        summary=_page_summary(found),
        display={"text/plain": head_and_tail(content)} if read else {},
        details={"path": shown, "lines_read": read, "was_truncated": found.is_cut},
    )


def _page_summary(found: TextPage) -> str:
    read = len(found.lines)
    if found.table and not read:
        return found.table[0].removeprefix("table: ")
    if not read:
        return "empty" if not found.total else "behind the last line"
    if found.offset == 0 and found.end:
        return "1 line" if read == 1 else f"{read:,} lines"
    return f"lines {found.offset + 1:,} to {found.offset + read:,}"


def _lines_wanted(args: ReadFileArgs) -> str:
    if args.limit is None:
        return f"from line {args.offset + 1:,}" if args.offset else "all lines"
    return f"lines {args.offset + 1:,} to {args.offset + args.limit:,}"
