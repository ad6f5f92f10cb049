"""Cells and outputs in words: for the user by number, for the model by address."""

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

MAX_IMAGES: Final = 4
"""Images of one result that a model with eyes gets."""
_OBJECT_REPR: Final = re.compile(r"<.{1,300} (?:at 0x[0-9a-fA-F]+|object)>")
"""What Python calls an object of which it knows nothing else."""

CONTEXT_LINES = 3
"""Unchanged lines shown around a change in a long cell."""
WHOLE_LINES = 200
"""Lines up to which a cell is shown whole."""

_VIBE: Final = re.compile(r"^(?:[^#'\"\n]*=)?[ \t]*%%?vibe\b", re.MULTILINE)
"""Code that gives a prompt or a command to the agent; IPython takes the magics at the start of a line only."""

_WIDGET: Final = "application/vnd.jupyter.widget-view+json"
AS_IT_BEGAN: Final = "[a widget as it was when it began; what it shows by now is not known]"

_FRAME: Final = re.compile(r"""<table\b[^>]*\bclass=["']?dataframe""")
"""A table as pandas and polars write it: shorter line by line than their text, which wraps."""
_FRAME_READ: Final = 200_000
"""Characters of one that are read."""
NAMES_SHOWN: Final = 12
"""Names of one kind that are named after a run."""

_SCHEME: Final = r"(?:\b(?:https?|ftp|wss?):"
_LEADS_AWAY: Final = re.compile(_SCHEME + r"|[/\\]{2})", re.IGNORECASE)
"""An address as it begins that a browser looks for elsewhere: ``https:evil.example`` is one as well."""
_REMOTE: Final = re.compile(_SCHEME + r"|//)[^\s\"'<>)]+", re.IGNORECASE)
_TAG: Final = re.compile(r"<[a-z]", re.IGNORECASE)
RAW_HTML: Final = "raw HTML"
DIAGRAM: Final = "what a Mermaid diagram names"
_READ_DIFFERENTLY: Final = re.compile(r"[`$|<\\]|~~|^(?: {4}|\t)", re.MULTILINE)
"""Code, formulas, tables: pages take them out of the text in an order of their own, and see pictures in what is code
or the title of a link in CommonMark."""
_PLAIN_ADDRESS: Final = re.compile(
    r"(?<![!\\\[\]])\[[\w ,.:;'()-]*\]\(https?://[\w./?=&%#~+:@,;-]*\)"
    r"|<https?://[\w./?=&%#~+:@,;-]*>"
    r"|(?:(?<=[\w.,;] )|(?<=\w: ))https?://[\w./?=&%#~+:@,;-]*"
    r"|\bdata:image/[\w.+-]+;base64,[\w+/=]*"
)
"""Where no page sees the address of a picture: links, and the pictures themselves."""
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_MERMAID_ENTITY: Final = re.compile(r"#(\d+);")
_CSS_ESCAPE: Final = re.compile(r"\\(?!n)")


def sees_no_images() -> bool:
    """Of a model that sees no images."""
    return False


def status_line(result: ExecutionResult, limit: float | None) -> str:
    """How it ended, in one line; `limit` is what it was given, in seconds."""
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
    """The same for the user, in a few words after the headline."""
    if result.status == "error" and result.error is not None:
        return f"{result.error.name}: {_first_line(result.error.message)}".removesuffix(": ")
    if result.status != "ok":
        return status_line(result, limit)
    figures = sum(1 for output in result.outputs if _image_type(_output_data(output)))
    lines = len([line for line in output.splitlines() if line and not line.startswith("[image/")])
    counts = [f"{n} {word}{'s' if n != 1 else ''}" for n, word in ((figures, "figure"), (lines, "line")) if n]
    return ", ".join(counts) or "no output"


def is_text(output: Output) -> bool:
    """Whether it is plain text alone: no picture, and nothing that one is drawn of."""
    return _output_data(output).keys() <= {"text/plain"}


def output_text(outputs: Iterable[Output], label: "LabelImage | None" = None) -> str:
    """Outputs as the model reads them; `label` names those images that it gets."""
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
    if plain and _WIDGET in data:  # of a progress bar of tqdm that is 0 %
        plain += f" {AS_IT_BEGAN}"
    return plain_text(plain) or f"[{', '.join(sorted(data))} shown to the user]"


def _chart_text(data: dict[str, Any]) -> str:
    """What a chart shows, where the output is one that the page draws."""
    if not any(mime.startswith("application/") or mime == "text/html" for mime in data):
        return ""
    with without_working_folder():
        from vibe_jupyter.charts.outputs import output_chart  # noqa: PLC0415 - most outputs are text

    return output_chart(data)


def _of_html(data: dict[str, Any]) -> str:
    """The text of an output that has HTML and no better text; what it is where the HTML shows no text."""
    plain, source = str(data.get("text/plain", "")), str(data.get("text/html", ""))
    if not source:
        return plain
    if text := html_text(source):
        return text
    others = ", ".join(sorted(mime for mime in data if not mime.startswith("text/")))
    note = f"text/html of {len(source):,} characters without text{f', {others}' if others else ''}"
    return f"{plain} [{note}; shown to the user]".lstrip()


def _as_shown(text: str) -> str:
    """A progress bar writes its line again and again: as a terminal, show the last state."""
    lines = plain_text(text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


LabelImage = Callable[[dict[str, Any]], str]
"""Takes the data of an output with an image; gives what the text says of it."""


class ImageLabels:
    """The images of one result, for a model with eyes: each once, and named in the text where it belongs."""

    def __init__(self, reads: CellReads | None = None) -> None:
        self._reads = reads
        """None where the outputs are of no cell."""
        self.images: list[ImagePart] = []

    def of(self, cell: Cell) -> LabelImage:
        """For the outputs of a cell."""
        return lambda data: self.label(data, cell)

    def label(self, data: dict[str, Any], cell: Cell | None = None) -> str:
        """Keep the image of one output for the model; what is said of it, empty where there is none."""
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
    """Counts of names that aren't said."""

    created: int = 0
    changed: int = 0


NO_OTHERS: Final = OtherNames()


def names_line(result: ExecutionResult, note: str = "", others: OtherNames = NO_OTHERS) -> str:
    """Names the code bound."""
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
    """The first of them, and how many others there are; `others` are those of which no name is known."""
    more = len(names) - NAMES_SHOWN
    shown = ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return " and ".join(filter(None, (shown, f"{others:,} that the code doesn't name" if others else "")))


def must_be_no_prompt(what: str, *sources: str) -> None:
    """Let through what is code of the notebook's own.

    Args:
        what: names the code, such as ``cell 3``.
        sources: what would run, and what would lose its output.

    Raises:
        NothingDone: `%vibe` or `%%vibe` is in it: a run cannot start another, and the cell's record would be gone.
    """
    if any(_VIBE.search(source) for source in sources):
        raise NothingDone(
            f"Nothing was done: {what} is a prompt to the agent (%vibe), and a run cannot start another. Do its task "
            "yourself, or ask the user to run it."
        )


def cell_number(cell: Cell | None) -> str:
    """As the user sees the cell: ``[6]`` if it ran, else its place."""
    if cell is None:
        return ""
    return f"[{cell.execution_count}]" if cell.execution_count is not None else f"#{cell.number}"


def headline_words(verb: str, cells: Sequence[Cell | None]) -> tuple[str, str]:
    """Verb and target of a headline: ``Ran cell`` and ``[6]``, or ``Ran 3 cells`` and nothing."""
    if len(cells) == 1:
        return f"{verb} cell" if cells[0] is not None else f"{verb} a cell", cell_number(cells[0])
    if not cells:
        return f"{verb} cells", ""
    return f"{verb} {len(cells)} cells", ""


def cell_title(cell: Cell, name: str) -> str:
    """The line above a cell's source, for the model; `name` is its address."""
    if cell.kind != "code":
        return f"{name} {cell.kind}"
    if is_prompt(cell.source):
        return f"{name} (a prompt)"
    return f"{name} {cell.state}{f': {cell.why}' if cell.why else ''}"


def with_newlines(text: str) -> str:
    """With the line ends that notebooks have."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def cell_diff(old: str, new: str) -> Preview:
    """One change with the lines around it, without file names."""
    before, after = old.split("\n"), new.split("\n")
    context = len(before) if len(before) <= WHOLE_LINES else CONTEXT_LINES
    lines = list(difflib.unified_diff(before, after, n=context, lineterm=""))[2:]
    return Preview(kind="diff", text="\n".join(lines))


def touched_by_write(value: str, kind: CellKind, source: str, *, run: bool) -> tuple[Resource, ...]:
    """What writing this source into a cell touches; `value` names the cell."""
    touched = [Resource(kind="cell", value=value, access="write")]
    if kind == "markdown":
        touched += [Resource(kind="url", value=address, access="read") for address in loaded_addresses(source)]
    if run:
        touched.append(Resource(kind="cell", value=value, access="execute"))
    return tuple(touched)


def loaded_addresses(source: str) -> tuple[str, ...]:
    """Addresses of remote images, `RAW_HTML` with the addresses in it, and `DIAGRAM` with those of Mermaid diagrams.

    Where the page may read the text in another way than CommonMark, every address counts beside which an image or a
    tag stands somewhere: rather one too many.
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
    """As browsers read addresses."""
    return re.sub(r"[\t\r\n]", "", text)


def _flat_tokens(tokens: "Iterable[Token]") -> "Iterator[Token]":
    for token in tokens:
        yield token
        yield from _flat_tokens(token.children or ())
