"""The notebook as values: cells, results of edits and runs, and its file's JSON with abridged outputs.

Scripts, styles and drawings are omitted: the HTML of a chart has 25 kB of them, meaningless as text. HTML is scanned in
one pass from left to right, since its authors are untrusted: document parsers take minutes for some inputs.
"""

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, cast

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.kernel.outputs import Output, join_lines
from vibe_jupyter.protocol import METADATA_KEY, ORIGIN_KEY, Cell, CellEdit, CellMark, ExecutionResult
from vibe_jupyter.protocol.cells import BRIEF_TEXT
from vibe_jupyter.tools.contract import OnAsking, unheard

HTML_READ: Final = 200_000  # characters of HTML to scan; the rest is omitted with a note

_CELL: Final = " | "
_CELLS: Final = ("td", "th")
# Elements that begin and end a line.
_LINES: Final = frozenset(
    [
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "br",
            "caption",
            "dd",
            "details",
            "div",
            "dl",
            "dt",
            "figcaption",
        ),
        *("figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol"),
        *("p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul"),
    ]
)
# Elements whose content isn't displayed text.
_UNSEEN: Final = frozenset(
    [
        *("audio", "canvas", "iframe", "math", "noscript", "object", "script", "select", "style", "svg", "template"),
        *("textarea", "title", "video"),
    ]
)
_NAME: Final = re.compile(r"/?[a-zA-Z][a-zA-Z0-9-]*")
_QUOTE_OR_END: Final = re.compile("[\"'>]")
_SPACES: Final = re.compile(r"[ \t\n\r\f]+")
_HARD_SPACE: Final = "\N{NO-BREAK SPACE}"

MAY_RAISE: Final = "raises-exception"  # nbformat's tag for a cell that is expected to raise
MAJOR: Final = 4  # of nbformat; Jupyter has written no other since 2015

NotebookJson = dict[str, Any]

TEXTS: Final = ("text/plain", "text/markdown", "text/html")  # MIME types that a description may quote, best first

RawOutput = dict[str, Any]


def html_text(source: str, *, of_frame: bool = False) -> str:
    """Convert HTML to the text a browser would show, line by line; "" if there is none, as for charts.

    Args:
        source: The HTML.
        of_frame: Whether a library wrote it for a frame. All white space in its cells is data: it is preserved, and
            quoted where it is leading or trailing.
    """
    text = _Text(of_frame=of_frame)
    for tag, piece in _pieces(source[:HTML_READ]):
        text.tag(tag)
        text.add(html.unescape(f"<{piece}" if tag == "<" else piece))
    lines = text.lines()
    if lines and len(source) > HTML_READ:
        lines.append(f"[… {len(source) - HTML_READ:,} characters of HTML left out …]")
    return "\n".join(lines)


class _Text:
    """Builder of text lines, each a list of pieces."""

    def __init__(self, *, of_frame: bool) -> None:
        self._lines: list[list[str]] = [[]]
        self._is_preformatted = False
        self._of_frame = of_frame
        self._is_in_cell = False

    def tag(self, tag: str) -> None:
        name = tag.removeprefix("/")
        if name in _CELLS:
            self._is_in_cell = tag == name
        if name == "pre":
            self._is_preformatted = tag == name
        if name in _LINES:
            self._lines.append(["- "] if tag == "li" else [])
        elif name in _CELLS:
            line = self._lines[-1]
            # The end tag of a cell may be omitted before the next cell.
            if tag != name or (line and line[-1] != _CELL):
                line.append(_CELL)

    def add(self, text: str) -> None:
        if self._is_preformatted:
            first, *more = text.split("\n")
            self._lines[-1].append(first)
            self._lines += [[line] for line in more]
            return
        line = self._lines[-1]
        if self._of_frame and self._is_in_cell and not text.isspace():
            text = text.replace(_HARD_SPACE, " ")
            line.append(text if text == text.strip() else repr(text))
            return
        text = _SPACES.sub(" ", text)
        if shown := text.lstrip(" ") if not line or line[-1].endswith(" ") else text:
            line.append(shown.replace(_HARD_SPACE, " "))

    def lines(self) -> list[str]:
        """Return the lines that have text, without trailing cell separators."""
        joined = ("".join(pieces).rstrip() for pieces in self._lines)
        shown = (line.removesuffix(_CELL.rstrip()).rstrip() for line in joined)
        return [line for line in shown if line.strip(" -|")]


def _pieces(source: str) -> Iterator[tuple[str, str]]:
    """Yield tags, such as ``td`` or ``/td``, each with the text up to the next tag. The first tag is ""."""
    tag, at = "", 0
    while True:
        start = source.find("<", at)
        yield tag, source[at:start] if start >= 0 else source[at:]
        if start < 0:
            return
        tag, at = _read_tag(source, start)
        if tag in _UNSEEN:
            end = re.compile(f"</{tag}", re.IGNORECASE | re.ASCII).search(source, at)
            at = end.start() if end else len(source)


def _read_tag(source: str, start: int) -> tuple[str, int]:
    """Parse a tag at `start`. Returns its name ("" if it displays nothing) and the index after it."""
    if source.startswith("<!--", start):
        return "", _after(source, "-->", start)
    name = _NAME.match(source, start + 1)
    if name is None:
        # A lone "<" is text, reported as its own tag; a declaration displays nothing.
        return (
            ("", _after(source, ">", start)) if source[start + 1 : start + 2] in ("!", "?", "/") else ("<", start + 1)
        )
    at = name.end()
    while (found := _QUOTE_OR_END.search(source, at)) and found[0] != ">":
        at = _after(source, found[0], found.end())
    return name[0].lower(), found.end() if found else len(source)


def _after(source: str, text: str, start: int) -> int:
    found = source.find(text, start)
    return found + len(text) if found >= 0 else len(source)


class StaleCell(NotebookError):
    """Error for a cell whose source changed since an edit or run was planned. Nothing was done."""

    def __init__(self, cell: str, source: str) -> None:
        super().__init__(f"Cell {cell} was changed meanwhile.")
        self.cell = cell
        self.source = source  # the current source


@dataclass(frozen=True)
class Listing:
    """All cells at one moment."""

    path: str
    cells: tuple[Cell, ...]
    note: str = ""  # note for the reader, such as that it was read from disk
    fixed: str = ""  # why its cells can't be changed or queued, with the next step; "" if they can
    offers_cell: bool = False  # True if a fixed notebook still accepts one new code cell below the prompt


class EditUnsure(NotebookError):
    """Error for an edit that a page received but didn't confirm, so that it may still be made."""


@dataclass(frozen=True)
class EditDone:
    # `done`: read back from the document. `queued`: the front end applies it after this cell. `shown`: only displayed,
    # for the user to copy.
    outcome: Literal["done", "queued", "shown"]
    sources: Mapping[str, str] = field(default_factory=dict[str, str])  # source by cell id, read back from the document
    may_come: bool = False  # True if the page received the edit and may still apply it


@dataclass(frozen=True)
class CellRun:
    result: ExecutionResult
    in_place: bool  # True if its outputs are below the cell itself


class Notebook(Protocol):
    """A notebook. All methods raise NotebookError with advice for the user or model."""

    async def cells(self) -> Listing:
        """List all cells, with abridged outputs."""
        ...

    async def outputs(self, cell: str, *, index: int | None, limit: int) -> Sequence[Output]:
        """Return a cell's outputs, or the one at `index`. Data larger than `limit` bytes is replaced by its size."""
        ...

    async def picture(self, cell: str, index: int, *, count: int) -> str | None:
        """Return the page's image of an output as a base64 PNG, or None if no page draws it.

        `count` is the number of outputs.
        """
        ...

    async def edit(self, edits: Sequence[CellEdit]) -> EditDone:
        """Apply all edits or none. Raises `StaleCell` if a cell isn't as expected."""
        ...

    async def run(
        self,
        cell: Cell,
        *,
        seconds: float | None,
        on_output: Callable[[str], None],
        on_asking: OnAsking = unheard,
    ) -> CellRun:
        """Run a cell with exactly this source to its end, or until `seconds` have passed."""
        ...

    async def queue(self, cell: Cell) -> str:
        """Queue a cell with exactly this source, and return the id of its request."""
        ...


class NotNotebook(ValueError):
    """Error for a file that isn't a notebook. The message completes a sentence starting with the file's name."""


def parse_notebook(raw: bytes, *, oldest: int = MAJOR) -> NotebookJson:
    """Parse a notebook: nbformat 4 with a list of cell objects, or an older version from `oldest` on.

    Raises:
        NotNotebook: It isn't one.
    """
    found = _parse_json(raw)
    if not isinstance(found, dict):
        raise NotNotebook("is JSON, but not a notebook. Name another file, or open it in Jupyter to see what it holds.")
    notebook = cast(NotebookJson, found)
    if _checked_version(notebook, oldest) < MAJOR:
        return notebook
    cells = notebook.get("cells")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cast("list[object]", cells)):
        raise NotNotebook("is not a notebook: it has no list of cells. Open it in Jupyter and repair it.")
    return notebook


def _parse_json(raw: bytes) -> object:
    if not raw.strip():
        raise NotNotebook("is empty. Make a notebook in Jupyter and save it there.")
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise NotNotebook(f"is not a notebook: byte {error.start} is not valid UTF-8.") from error
    except json.JSONDecodeError as error:
        if raw.lstrip()[:1] not in (b"{", b"["):
            raise NotNotebook(
                "is not a notebook: it holds text, not JSON. For a script or a Quarto or Markdown document, make a "
                "notebook of it first: `jupytext --to ipynb FILE`."
            ) from error
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise NotNotebook(
            f"is not a notebook: it is not valid JSON ({where}). Repair it, or take an older copy."
        ) from error
    except RecursionError as error:
        raise NotNotebook("is not a notebook: its JSON is nested too deeply.") from error
    except ValueError as error:
        raise NotNotebook("is not a notebook: its JSON holds a number of thousands of digits.") from error


def _checked_version(notebook: NotebookJson, oldest: int) -> int:
    version = notebook.get("nbformat")
    if type(version) is not int:
        raise NotNotebook("is JSON, but not a notebook: it has no nbformat.")
    if version < oldest:
        raise NotNotebook(
            f"is in nbformat {version}, which Jupyter no longer writes. Open it in Jupyter and save it, or run "
            "`jupyter nbconvert --to notebook --inplace` on it."
        )
    if version > MAJOR:
        raise NotNotebook(
            f"is in nbformat {version}, which is newer than this version of vibe-jupyter knows. Install a newer one."
        )
    return version


def brief_output(output: Mapping[str, Any]) -> dict[str, Any]:
    """Return type, MIME types, size in bytes, and the beginning of the text."""
    kind = str(output.get("output_type"))
    if kind == "stream":
        text = join_lines(output.get("text"))
        return {"type": kind, "mimes": [], "size": _byte_count(text), "text": text[:BRIEF_TEXT]}
    if kind == "error":
        size = _byte_count(join_lines(output.get("traceback")))
        text = f"{output.get('ename', '')}: {output.get('evalue', '')}"
        return {"type": kind, "mimes": [], "size": size, "text": text[:BRIEF_TEXT]}
    data = _output_data(output)
    shown = next((mime for mime in TEXTS if mime in data), None)
    return {
        "type": kind,
        "mimes": sorted(data),
        "size": sum(_byte_count(_as_text(value)) for value in data.values()),
        "text": "" if shown is None else join_lines(data[shown])[:BRIEF_TEXT],
    }


def bound_output(output: RawOutput, limit: int) -> RawOutput:
    """Shorten texts longer than the limit, and replace longer data of other types with its size."""
    kind = output.get("output_type")
    if kind == "stream":
        return {**output, "text": _cut_text(join_lines(output.get("text")), limit)}
    if kind == "error":
        whole = "\n".join(_output_lines(output.get("traceback")))
        return output if len(whole) <= limit else {**output, "traceback": _cut_text(whole, limit).split("\n")}
    return {**output, "data": _bound_data(_output_data(output), limit)}


def _bound_data(data: Mapping[str, Any], limit: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    left: list[str] = []
    for mime, value in data.items():
        text = _as_text(value)
        if len(text) <= limit:
            kept[mime] = value
        elif mime.startswith("text/"):
            kept[mime] = _cut_text(text, limit)
        else:
            left.append(f"[{mime} of {_byte_count(text)} bytes left out]")
    if left:
        kept["text/plain"] = "\n".join(filter(None, [join_lines(kept.get("text/plain")), *left]))
    return kept


def _cut_text(text: str, limit: int) -> str:
    """Keep head and tail, with a note in between."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[len(text) - half :]}"


def _output_data(output: Mapping[str, Any]) -> Mapping[str, Any]:
    data = output.get("data")
    return cast("Mapping[str, Any]", data) if isinstance(data, dict) else {}


def _output_lines(value: object) -> list[str]:
    return list(map(str, cast("list[object]", value))) if isinstance(value, list) else []


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in cast("Iterable[object]", value)):
        return join_lines(cast("list[object]", value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _byte_count(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def conversation_in(metadata: object) -> str:
    """Return the conversation id in a notebook's metadata, or ""."""
    found: object = metadata
    for key in (METADATA_KEY, "conversation"):
        found = cast("Mapping[str, object]", found).get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else ""


def cell_mark(cell: Mapping[str, Any]) -> CellMark | None:
    """Return the origin in a raw cell's metadata, or None."""
    metadata = cell.get("metadata")
    mark = cast("Mapping[str, object]", metadata).get(ORIGIN_KEY) if isinstance(metadata, Mapping) else None
    return cast("CellMark", mark) if isinstance(mark, dict) else None


def may_raise(cell: Mapping[str, Any]) -> bool:
    """Return whether a raw cell is expected to raise."""
    return MAY_RAISE in cell_tags(cell)


def cell_tags(cell: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tags of a raw cell, skipping any that aren't strings."""
    metadata = cell.get("metadata")
    tags = cast("Mapping[str, object]", metadata).get("tags") if isinstance(metadata, Mapping) else None
    return tuple(tag for tag in cast("list[object]", tags) if isinstance(tag, str)) if isinstance(tags, list) else ()
