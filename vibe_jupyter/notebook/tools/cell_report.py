"""Cells and outputs as text: by number for the user, by address for the model."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import unescape
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import unquote

from vibe_jupyter.errors import NothingDone
from vibe_jupyter.files.images import fit_image
from vibe_jupyter.kernel.outputs import Output, plain_text
from vibe_jupyter.notebook.access import CellReads
from vibe_jupyter.notebook.cell_names import is_prompt
from vibe_jupyter.notebook.document import html_text
from vibe_jupyter.protocol import Cell, CellKind, ExecutionResult, ImagePart, Preview, Resource
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from markdown_it.token import Token

MAX_IMAGES: Final = 4  # images of one result that are sent to a model with vision
# Python's default representation of an object.
_OBJECT_REPR: Final = re.compile(r"<.{1,300} (?:at 0x[0-9a-fA-F]+|object)>")

CONTEXT_LINES = 3  # unchanged lines around a change in a long cell
WHOLE_LINES = 200  # lines; cells up to this length are shown in full

# Code that sends a prompt or command to the agent. IPython recognizes magics only at the start of a line.
_VIBE: Final = re.compile(r"^(?:[^#'\"\n]*=)?[ \t]*%%?vibe\b", re.MULTILINE)

_WIDGET: Final = "application/vnd.jupyter.widget-view+json"
AS_IT_BEGAN: Final = "[a widget as it was when it began; what it shows by now is not known]"

# A table as pandas and polars write it. Its rows are shorter than their wrapped plain text.
_FRAME: Final = re.compile(r"""<table\b[^>]*\bclass=["']?dataframe""")
_FRAME_READ: Final = 200_000  # characters of an output's HTML to search
NAMES_SHOWN: Final = 12  # names of one kind listed after a run

_SCHEME: Final = r"(?:\b(?:https?|ftp|wss?):"
# Prefix of an address that browsers resolve to another host; ``https:evil.example`` is one too.
_LEADS_AWAY: Final = re.compile(_SCHEME + r"|[/\\]{2})", re.IGNORECASE)
_REMOTE: Final = re.compile(_SCHEME + r"|//)[^\s\"'<>)]+", re.IGNORECASE)
_TAG: Final = re.compile(r"<[a-z]", re.IGNORECASE)
RAW_HTML: Final = "raw HTML"
DIAGRAM: Final = "what a Mermaid diagram names"
# Code, formulas and tables: pages parse them differently from CommonMark, and may see images inside code or link
# titles.
_READ_DIFFERENTLY: Final = re.compile(r"[`$|<\\]|~~|^(?: {4}|\t)", re.MULTILINE)
# Links and embedded images, in which no page sees the address of a remote image.
_PLAIN_ADDRESS: Final = re.compile(
    r"(?<![!\\\[\]])\[[\w ,.:;'()-]*\]\(https?://[\w./?=&%#~+:@,;-]*\)"
    r"|<https?://[\w./?=&%#~+:@,;-]*>"
    r"|(?:(?<=[\w.,;] )|(?<=\w: ))https?://[\w./?=&%#~+:@,;-]*"
    r"|\bdata:image/[\w.+-]+;base64,[\w+/=]*"
)
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_MERMAID_ENTITY: Final = re.compile(r"#(\d+);")
_CSS_ESCAPE: Final = re.compile(r"\\(?!n)")


def sees_no_images() -> bool:
    """Return False (for models without vision)."""
    return False


def status_line(result: ExecutionResult, limit: float | None) -> str:
    """Describe the outcome in one line. `limit` is the time limit in seconds."""
    match result.status:
        case "ok":
            return f"ok in {result.seconds:.1f} s"
        case "error":
            error = result.error
            return f"error: {error.name}: {_first_line(error.message)}".removesuffix(": ") if error else "error"
        case "timeout":
            return f"timeout after {limit:g} s"
        case "interrupted":
            return "interrupted by the user"


def run_summary_text(result: ExecutionResult, output: str, limit: float | None) -> str:
    """Describe the outcome for the user, in a few words after the headline."""
    if result.status == "error" and result.error is not None:
        return f"{result.error.name}: {_first_line(result.error.message)}".removesuffix(": ")
    if result.status != "ok":
        return status_line(result, limit)
    figures = sum(1 for output in result.outputs if _image_type(_output_data(output)))
    lines = len([line for line in output.splitlines() if line and not line.startswith("[image/")])
    counts = [f"{n} {word}{'s' if n != 1 else ''}" for n, word in ((figures, "figure"), (lines, "line")) if n]
    return ", ".join(counts) or "no output"


def is_text(output: Output) -> bool:
    """Return whether the output is only plain text: no image and nothing that is drawn as one."""
    return _output_data(output).keys() <= {"text/plain"}


def output_text(outputs: Iterable[Output], label: "LabelImage | None" = None) -> str:
    """Render outputs as text for the model. `label` describes images that are sent along."""
    return "\n".join(filter(None, (_output_text(output, label).strip("\n") for output in outputs)))


def _output_text(output: Output, label: "LabelImage | None") -> str:
    match output["output_type"]:
        case "stream":
            return _as_shown(str(output["text"]))
        case "error":
            return plain_text("\n".join(cast(list[str], output["traceback"])))
        case _:
            return _mime_text(_output_data(output), label)


def _mime_text(data: dict[str, Any], label: "LabelImage | None") -> str:
    image = _image_type(data)
    chart = _chart_text(data)
    if image:
        return "\n".join(filter(None, (chart, f"[{image} shown to the user{label(data) if label else ''}]")))
    if chart:
        return chart
    if _FRAME.search(source := str(data.get("text/html", ""))[:_FRAME_READ]) and (
        table := html_text(source, of_frame=True)
    ):
        return table
    plain = str(data.get("text/plain", ""))
    if not plain or _OBJECT_REPR.fullmatch(plain):
        plain = str(next((data[mime] for mime in ("text/markdown", "text/latex") if mime in data), "")) or _of_html(
            data
        )
    if plain and _WIDGET in data:  # of a tqdm progress bar, which is at 0 %
        plain += f" {AS_IT_BEGAN}"
    return plain_text(plain) or f"[{', '.join(sorted(data))} shown to the user]"


def _chart_text(data: dict[str, Any]) -> str:
    """Describe a chart that the page draws, or return ""."""
    if not any(mime.startswith("application/") or mime == "text/html" for mime in data):
        return ""
    with without_working_folder():
        from vibe_jupyter.charts.outputs import output_chart  # noqa: PLC0415 - most outputs are text

    return output_chart(data)


def _of_html(data: dict[str, Any]) -> str:
    """Return the text of an output with HTML and no better text, or a note if the HTML has none."""
    plain, source = str(data.get("text/plain", "")), str(data.get("text/html", ""))
    if not source:
        return plain
    if text := html_text(source):
        return text
    others = ", ".join(sorted(mime for mime in data if not mime.startswith("text/")))
    note = f"text/html of {len(source):,} characters without text{f', {others}' if others else ''}"
    return f"{plain} [{note}; shown to the user]".lstrip()


def _as_shown(text: str) -> str:
    """Apply carriage returns as a terminal would, so that only the final state of a progress bar remains."""
    lines = plain_text(text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


LabelImage = Callable[[dict[str, Any]], str]  # returns the text describing the image in an output's data


class ImageLabels:
    """Images of one result for a model with vision: each is sent once and named in the text where it belongs."""

    def __init__(self, reads: CellReads | None = None) -> None:
        self._reads = reads  # None if the outputs don't belong to a cell
        self.images: list[ImagePart] = []

    def of(self, cell: Cell) -> LabelImage:
        """Return the label function for a cell's outputs."""
        return lambda data: self.label(data, cell)

    def label(self, data: dict[str, Any], cell: Cell | None = None) -> str:
        """Collect the output's image for the model, and return its description or ""."""
        image = _raster_image(data)
        small = fit_image(image) if image is not None else None
        if small is None:
            return ""
        if small in self.images:
            return f"; same as image {self.images.index(small) + 1}"
        if len(self.images) == MAX_IMAGES:
            return f"; not sent, {self._how_to_get(cell)}"
        self.images.append(small)
        of_cell = f", of {self._reads.address(cell)}" if self._reads and cell else ""
        return f"; image {len(self.images)}{of_cell}"

    def _how_to_get(self, cell: Cell | None) -> str:
        if self._reads is None or cell is None:
            return f"a result carries {MAX_IMAGES}: draw it in a call of its own"
        return f'read_notebook(cells=["{self._reads.short_id(cell)}"], outputs="images") sends it'


def _raster_image(data: dict[str, Any]) -> ImagePart | None:
    media_type = _image_type(data)
    if media_type not in ("image/png", "image/jpeg", "image/gif", "image/webp"):
        return None
    return ImagePart(media_type=media_type, data="".join(str(data[media_type]).split()))


def _image_type(data: dict[str, Any]) -> str:
    return next((mime for mime in data if mime.startswith("image/")), "")


def _output_data(output: Output) -> dict[str, Any]:
    return cast(dict[str, Any], output.get("data") or {})


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:200]


class OtherNames(NamedTuple):
    """Numbers of names that aren't listed."""

    created: int = 0
    changed: int = 0


NO_OTHERS: Final = OtherNames()


def names_line(result: ExecutionResult, note: str = "", others: OtherNames = NO_OTHERS) -> str:
    """Return lines with the names that the code bound."""
    lines = [
        f"names {what}: {shortened_names(names, more)}{note}"
        for what, names, more in (
            ("created", result.names_created, others.created),
            ("changed", result.names_changed, others.changed),
        )
        if names or more
    ]
    return "\n".join(lines)


def shortened_names(names: Sequence[str], others: int = 0) -> str:
    """List the first names with the number of others; `others` counts names that aren't known."""
    more = len(names) - NAMES_SHOWN
    shown = ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return " and ".join(filter(None, (shown, f"{others:,} that the code doesn't name" if others else "")))


def must_be_no_prompt(what: str, *sources: str) -> None:
    """Check that code doesn't invoke the agent.

    Args:
        what: What the code is, such as ``cell 3``.
        sources: Code to run, and code whose output would be replaced.

    Raises:
        NothingDone: It contains `%vibe` or `%%vibe`: runs can't be nested, and the cell's transcript would be lost.
    """
    if any(_VIBE.search(source) for source in sources):
        raise NothingDone(
            f"Nothing was done: {what} is a prompt to the agent (%vibe), and a run cannot start another. Do its task "
            "yourself, or ask the user to run it."
        )


def cell_number(cell: Cell | None) -> str:
    """Return the cell's label for the user: ``[6]`` if it ran, else its position."""
    if cell is None:
        return ""
    return f"[{cell.execution_count}]" if cell.execution_count is not None else f"#{cell.number}"


def headline_words(verb: str, cells: Sequence[Cell | None]) -> tuple[str, str]:
    """Return verb and target of a headline: ``Ran cell`` and ``[6]``, or ``Ran 3 cells`` and ""."""
    if len(cells) == 1:
        return f"{verb} cell" if cells[0] is not None else f"{verb} a cell", cell_number(cells[0])
    if not cells:
        return f"{verb} cells", ""
    return f"{verb} {len(cells)} cells", ""


def cell_title(cell: Cell, name: str) -> str:
    """Return the line above a cell's source, for the model. `name` is the cell's address."""
    if cell.kind != "code":
        return f"{name} {cell.kind}"
    if is_prompt(cell.source):
        return f"{name} (a prompt)"
    return f"{name} {cell.state}{f': {cell.why}' if cell.why else ''}"


def with_newlines(text: str) -> str:
    """Normalize line endings to newlines."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def cell_diff(old: str, new: str) -> Preview:
    """Return a diff without file names, with context for long cells."""
    before, after = old.split("\n"), new.split("\n")
    context = len(before) if len(before) <= WHOLE_LINES else CONTEXT_LINES
    lines = list(difflib.unified_diff(before, after, n=context, lineterm=""))[2:]
    return Preview(kind="diff", text="\n".join(lines))


def touched_by_write(value: str, kind: CellKind, source: str, *, run: bool) -> tuple[Resource, ...]:
    """Return the resources affected by writing this source to the cell `value`."""
    touched = [Resource(kind="cell", value=value, access="write")]
    if kind == "markdown":
        touched += [Resource(kind="url", value=address, access="read") for address in loaded_addresses(source)]
    if run:
        touched.append(Resource(kind="cell", value=value, access="execute"))
    return tuple(touched)


def loaded_addresses(source: str) -> tuple[str, ...]:
    """Return URLs of remote images, `RAW_HTML` with the URLs in it, and `DIAGRAM` with those of Mermaid diagrams.

    Where a page may parse the text differently from CommonMark, all URLs count if there is an image or tag anywhere:
    better one too many.
    """
    with without_working_folder():
        from markdown_it import MarkdownIt  # noqa: PLC0415 - a request need not wait for it

    found: list[str] = []
    images = 0
    for token in _flat_tokens(MarkdownIt("commonmark", {"html": True}).parse(source)):
        if token.type == "image":
            images += 1
            address = str(token.attrs.get("src", ""))
            found.extend([address] if _LEADS_AWAY.match(_without_breaks(unquote(address)).lstrip()) else [])
        elif token.type in ("html_block", "html_inline") and _TAG.search(token.content):
            found.append(RAW_HTML)
            found.extend(_REMOTE.findall(token.content))
    if "mermaid" in source.lower():
        diagram = unescape(_MERMAID_ENTITY.sub(r"&#\1;", source))
        if _REMOTE.search(_without_breaks(diagram)) or _CSS_ESCAPE.search(diagram):
            found.extend((DIAGRAM, *_REMOTE.findall(diagram)))
    rest = _PLAIN_ADDRESS.sub("", source)
    is_clear = source.count("![") == images and not _READ_DIFFERENTLY.search(source)
    if not is_clear and ("![" in rest or _TAG.search(rest)):
        plain = _ESCAPED.sub(r"\1", unescape(rest))
        found.extend(_REMOTE.findall(plain) or _REMOTE.findall(_without_breaks(plain)))
    return tuple(dict.fromkeys(found))


def _without_breaks(text: str) -> str:
    """Remove line breaks and tabs, as browsers do in URLs."""
    return re.sub(r"[\t\r\n]", "", text)


def _flat_tokens(tokens: "Iterable[Token]") -> "Iterator[Token]":
    for token in tokens:
        yield token
        yield from _flat_tokens(token.children or ())
