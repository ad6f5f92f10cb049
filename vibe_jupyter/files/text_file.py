"""Text files and notebooks as numbered lines, in any recognizable encoding and in bounded memory."""

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, NamedTuple, cast

from vibe_jupyter.files.truncation import cut_line

PAGE_LIMIT: Final = 7_500  # bytes of text per page; with its header, it fits into one tool result
LONG_LINE: Final = 4_000  # characters shown per line
_SNIFFED: Final = 8_192  # first bytes examined to tell text from other files
_CHUNK: Final = 65_536  # characters read at a time, so that a file with one endless line never fills memory
_CANCEL_EVERY: Final = 5_000  # lines between checks for an interrupt

# Longest byte order marks first: UTF-32's begins with UTF-16's.
_BYTE_ORDER_MARKS: Final = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"\xef\xbb\xbf", "utf-8-sig"),
)
_KINDS: Final = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"RIFF", "a WebP image, a sound or a video"),
    (b"%PDF-", "a PDF document"),
    (b"PAR1", "a Parquet table"),
    (b"ARROW1", "an Arrow table"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a numpy array"),
    (b"SQLite format 3", "an SQLite database"),
    (b"PK\x03\x04", "a zip archive (also .xlsx, .docx, .npz)"),
    (b"\x1f\x8b", "a gzip file"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ", "an xz file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    (b"\x7fELF", "a program"),
    (b"\x80\x04\x95", "a pickle"),
    (b"\x80\x05\x95", "a pickle"),
)

NOTEBOOK_LIMIT: Final = 100_000_000  # bytes; larger notebooks are read as plain text


class TextPage(NamedTuple):
    """A range of lines of a text."""

    lines: tuple[str, ...]  # without line endings
    offset: int  # number of the first line, from 0
    end: bool  # True if the text ends with this page
    is_cut: bool  # True if it ended because of its size, or a long line was cut
    total: int  # lines of the whole text if `end`, else lines read so far
    notes: tuple[str, ...] = ()  # notes on the decoding
    table: tuple[str, ...] = ()  # description of a data file as a whole


class TextLines:
    """Decoded lines of an open file."""

    def __init__(
        self, file: BinaryIO, encoding: str, cancelled: Callable[[], bool], *, longest: int = LONG_LINE
    ) -> None:
        errors = "surrogateescape" if encoding.startswith("utf-8") else "replace"
        # A lone CR isn't a line ending, so that line numbers agree with those of a search.
        self._text = io.TextIOWrapper(file, encoding=encoding, errors=errors, newline="\n")
        self._encoding = encoding
        self._longest = longest
        self._cancelled = cancelled
        self._has_latin = False

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the file's encoding, from the lines read so far."""
        if self._has_latin:
            return ("some lines are not valid UTF-8 and were read as Latin-1",)
        return (f"decoded from {self._encoding.upper()}",) if self._encoding.startswith(("utf-16", "utf-32")) else ()

    def close(self) -> None:
        """Detach from the file, which stays open."""
        self._text.detach()

    def __iter__(self) -> Iterator[str]:
        number = 0
        while piece := self._text.readline(_CHUNK):
            if number % _CANCEL_EVERY == 0 and self._cancelled():
                return
            number += 1
            yield self._whole_line(piece)

    def _whole_line(self, piece: str) -> str:
        length, last = len(piece), piece
        while not last.endswith("\n") and (last := self._text.readline(_CHUNK)):
            length += len(last)
            if self._cancelled():
                break
        line = self._decode_line(piece.removesuffix("\n").removesuffix("\r"))
        if length == len(piece):
            return cut_line(line, self._longest)
        return f"{line[: self._longest]}… ({length - self._longest:,} more characters)"

    def _decode_line(self, line: str) -> str:
        if line.isascii():
            return line
        try:
            line.encode()
        except UnicodeEncodeError:
            self._has_latin = True
            return line.encode("utf-8", "surrogateescape").decode("latin-1")
        return line


def text_encoding(file: BinaryIO) -> str | None:
    """Detect the encoding, or return None if it isn't text. Rewinds the file."""
    head = file.read(_SNIFFED)
    file.seek(0)
    marked = next((encoding for mark, encoding in _BYTE_ORDER_MARKS if head.startswith(mark)), None)
    if marked is not None:
        return marked
    is_known = any(head.startswith(magic) for magic, _ in _KINDS)
    return None if is_known or b"\0" in head else "utf-8"


def binary_kind(file: BinaryIO) -> str:
    """Return the type of a non-text file by its first bytes. Rewinds the file."""
    head = file.read(_SNIFFED)
    file.seek(0)
    return next((kind for magic, kind in _KINDS if head.startswith(magic)), "a binary file")


def read_page(lines: Iterator[str], offset: int, limit: int | None, *, room: int = PAGE_LIMIT) -> TextPage:
    """Return up to `limit` lines from number `offset`, at most `room` bytes. A long first line is cut to fit."""
    shown: list[str] = []
    seen, is_cut = 0, False
    for line in lines:
        seen += 1
        if seen <= offset:
            continue
        size = len(line.encode("utf-8", "replace")) + 1
        if size > room and not shown:
            line, size, is_cut = _cut_to(line, room), room, True
        room -= size
        if room < 0 or len(shown) == limit:
            return TextPage(tuple(shown), offset, end=False, is_cut=is_cut or room < 0, total=seen)
        is_cut = is_cut or len(line) > LONG_LINE
        shown.append(line)
    return TextPage(tuple(shown), offset, end=True, is_cut=is_cut, total=seen)


def _cut_to(line: str, room: int) -> str:
    return line.encode("utf-8", "replace")[: room - 1].decode("utf-8", "ignore")


def notebook_lines(file: BinaryIO) -> Iterator[str] | None:
    """Return the lines of a notebook's cells, each after a header with its number, or None if it isn't a notebook.

    Rewinds the file.
    """
    if os.fstat(file.fileno()).st_size > NOTEBOOK_LIMIT:
        return None
    cells = _notebook_cells(file.read())
    file.seek(0)
    return None if cells is None else _cell_lines(cells)


def _notebook_cells(raw: bytes) -> Sequence[Any] | None:
    try:
        notebook = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    cells = cast("Mapping[str, Any]", notebook).get("cells") if isinstance(notebook, dict) else None
    return cast("Sequence[Any]", cells) if isinstance(cells, list) else None


def _cell_lines(cells: Sequence[Any]) -> Iterator[str]:
    for number, cell in enumerate(cells, start=1):
        if isinstance(cell, dict):
            fields = cast("Mapping[str, Any]", cell)
            yield _cell_title(number, fields)
            yield from (cut_line(line, LONG_LINE) for line in _cell_source(fields).split("\n"))
            yield ""


def _cell_title(number: int, cell: Mapping[str, Any]) -> str:
    facts = [f"cell {number}", str(cell.get("cell_type", "unknown"))]
    if isinstance(cell.get("id"), str):
        facts.append(f"id {cell['id']}")
    outputs = cell.get("outputs")
    if isinstance(outputs, list) and outputs:
        count = len(cast("Sequence[Any]", outputs))
        facts.append(f"{count} output{'s' * (count != 1)} left out")
    return f"--- {', '.join(facts)} ---"


def _cell_source(cell: Mapping[str, Any]) -> str:
    source = cell.get("source", "")
    if isinstance(source, list):
        return "".join(str(line) for line in cast("Sequence[Any]", source))
    return str(source)
