"""Tool calls as steps: a line, details when opened, and groups of similar calls."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from pydantic import JsonValue, TypeAdapter, ValidationError

from vibe_jupyter.files.sizes import bytes_text
from vibe_jupyter.protocol import (
    DOWNLOAD_MIME,
    PICTURES_MIME,
    TABLE_MIME,
    Download,
    FileProduced,
    Headline,
    MimeBundle,
    Picture,
    Preview,
    Table,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from vibe_jupyter.ui.cards import preview_html
from vibe_jupyter.ui.code import KEPT_LEFT, KEPT_PRE, LIVE, CodeLook
from vibe_jupyter.ui.icons import icon_html, tool_icon
from vibe_jupyter.ui.markdown_html import markdown_html
from vibe_jupyter.ui.markup import (
    NOTHING,
    Markup,
    escape_text,
    html_element,
    inert_text,
    is_picture,
    join_markup,
    picture_size,
)
from vibe_jupyter.ui.plan import PlanEntry
from vibe_jupyter.ui.streaming_text import StreamingText
from vibe_jupyter.ui.text import OUTPUT_LIMIT, one_line, output_text, readable_text, seconds_text, shorten_text

KEPT_SHARE = 15  # base64 characters saved per character allowed for text: 120,000 at the highest limit
PICTURES_LIMIT = 12  # images shown in a step

_PICTURES = TypeAdapter(tuple[Picture, ...])
_DOWNLOADS: TypeAdapter[Download | tuple[Download, ...]] = TypeAdapter(Download | tuple[Download, ...])
# Audio types that browsers play. They can't contain scripts.
_SOUNDS = frozenset({"audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3", "audio/mp4", "audio/ogg", "audio/webm"})
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
DOWNLOADS_LIMIT = 12  # files offered in a step


def pictures_html(content: JsonValue, look: CodeLook, limit: int) -> Markup:
    """Render raster images that came as data."""
    try:
        pictures = _PICTURES.validate_python(content)
    except ValidationError:
        return NOTHING
    most = None if look is LIVE else limit * KEPT_SHARE
    pieces = [_picture_html(picture, most) for picture in pictures[:PICTURES_LIMIT]]
    if len(pictures) > PICTURES_LIMIT:
        pieces.append(html_element("div", inert_text(f"… {len(pictures) - PICTURES_LIMIT:,} more pictures")))
    return html_element("div", *pieces, class_="vibe-prose" if look is LIVE else None)


def download_html(content: JsonValue, look: CodeLook, limit: int) -> Markup:
    """Render each file's path, a download link if its content is included, and a player for audio."""
    try:
        found = _DOWNLOADS.validate_python(content)
    except ValidationError:
        return NOTHING
    files = (found,) if isinstance(found, Download) else found
    pieces = [_download_html(file, look, limit) for file in files[:DOWNLOADS_LIMIT]]
    if len(files) > DOWNLOADS_LIMIT:
        pieces.append(html_element("div", inert_text(f"… {len(files) - DOWNLOADS_LIMIT:,} more files")))
    return join_markup(*pieces)


def _download_html(download: Download, look: CodeLook, limit: int) -> Markup:
    pieces: list[Markup] = []
    if look is LIVE and download.media_type in _SOUNDS and _BASE64.fullmatch(download.data):
        address = f"data:{download.media_type};base64,{download.data}"
        pieces.append(html_element("audio", controls=True, src=address, aria_label=one_line(download.name) or "sound"))
    if download.data and (look is LIVE or len(download.data) <= limit * KEPT_SHARE):
        # Never the file's own type: the link must save the file and not open it as a page.
        address = f"data:application/octet-stream;base64,{download.data}"
        name = one_line(download.name) or "file"
        pieces.append(html_element("a", inert_text(f"Download {name}"), href=address, download=name))
    if download.path:
        pieces.append(join_markup(inert_text("Kept as "), html_element("code", escape_text(download.path))))
    if not pieces:
        return NOTHING
    return html_element("div", Markup(" · ".join(pieces)), class_="vibe-prose" if look is LIVE else None)


def _picture_html(picture: Picture, most: int | None) -> Markup:
    """Render one image. `most` limits the saved base64 characters; None means no limit."""
    address = f"data:{picture.media_type};base64,{picture.data}"
    label = one_line(picture.label) or "picture"
    if not is_picture(address):
        return html_element("div", inert_text(f"{label}: no picture that can be shown"))
    if most is not None and len(picture.data) > most:
        size = bytes_text(len(picture.data) * 3 // 4)
        return html_element("div", inert_text(f"{label}: {size}, too large to be kept in the notebook"))
    width, height = picture_size(address) or (None, None)
    style = None if most is None else "max-width:100%;height:auto"
    # img is a void element, so it must not have an end tag.
    image = html_element("img", src=address, alt=label, width=width, height=height, style=style)
    return html_element("div", Markup(image.removesuffix("</img>")))


WORDS_LIMIT = 80  # characters of a tool's note

EXACT = 1e12  # numbers from here on are shown in scientific notation

Outcome = Literal["running", "ok", "error", "denied", "interrupted"]

THOUGHT = "thought"  # name of a step for the model's reasoning, which is no call
PROGRESS_LIMIT = 4_000  # characters of a running tool's output on the page; the latest are kept
ROWS_LIMIT = 60  # table rows shown in a step

TRIAL: Final = "trial"  # icon of a call that is being tried in the sandbox
NO_EFFECTS: Final = "nothing can change"

_MARKS: Mapping[Outcome, str] = {"running": "●", "error": "✕", "denied": "⊘", "interrupted": "■"}
_END_ICONS: Mapping[Outcome, str] = {"error": "failed", "denied": "denied", "interrupted": "stop"}
_TOOL_MARKS = {"run_code": "▷", "inspect": "▦", THOUGHT: "✻"}
_OTHER_MARK = "▤"
_WORDS: Mapping[Outcome, str] = {"error": "failed", "denied": "denied", "interrupted": "interrupted"}

GROUP_LIMIT = 20  # calls per group; a limit, since the whole group is sent again whenever one of its calls ends
DETAIL_LIMIT = 2_000  # characters of each text inside a grouped call
TARGETS_LIMIT = 4  # targets named on a group's line

_NAME = "server_file"
_RASTER = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


@dataclass(frozen=True)
class CallProgressState:
    """Latest progress report of a tool."""

    done: float
    total: float | None  # None if unknown
    said: str  # the tool's message, possibly ""

    @property
    def words(self) -> str:
        """Progress as text, such as ``3 of 10 · loading``."""
        known = "" if self.total is None else f" of {_number_text(self.total)}"
        said = one_line(output_text(self.said), WORDS_LIMIT)
        return " · ".join(word for word in (f"{_number_text(self.done)}{known}", said) if word)


class Milestones:
    """Progress lines for output that can't be redrawn: one per tenth."""

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        self._tenths: dict[str, int] = {}

    def begin(self, event: ToolStarted) -> None:
        """Start tracking a call."""
        headline = event.headline
        self._calls[event.call_id] = " ".join(filter(None, (headline.doing, headline.target, headline.note)))
        self._tenths[event.call_id] = 0

    def line(self, event: ToolProgress) -> str:
        """Return a progress line, or "" until the next tenth is reached."""
        if event.done is None or not event.total or event.call_id not in self._calls:
            return ""
        tenth = int(min(event.done / event.total, 1.0) * 10)
        if tenth <= self._tenths[event.call_id]:
            return ""
        self._tenths[event.call_id] = tenth
        how_far = CallProgressState(event.done, event.total, event.text).words
        return readable_text(one_line(f"{self._calls[event.call_id]} · {how_far}"))


def bar_html(progress: CallProgressState | None) -> Markup:
    """Render a progress bar, or nothing if the total is unknown."""
    if progress is None or progress.total is None:
        return NOTHING
    done = min(progress.done, progress.total)
    # Screen readers skip it: the text next to it has the same numbers.
    return html_element("progress", max=_number_text(progress.total), value=_number_text(done), aria_hidden="true")


def _number_text(value: float) -> str:
    """Format a number without a trailing ``.0``."""
    return str(int(value)) if value < EXACT and value == int(value) else f"{value:.6g}"


@dataclass(frozen=True)
class Step:
    """State of a call."""

    headline: Headline
    name: str = ""  # the tool's name; "" until it starts
    preview: Preview | None = None
    outcome: Outcome = "running"
    summary: str = ""
    seconds: float | None = None  # None if nothing ran
    # Seconds of running time when rendered, from which the page counts on; None if it isn't running.
    so_far: float | None = None
    display: MimeBundle = field(default_factory=dict[str, JsonValue])
    output: str = ""  # output so far, shown until `display` replaces it
    progress: CallProgressState | None = None  # None if the tool doesn't report any
    trial: bool = False  # True during a sandboxed trial
    edited: bool = False  # True if the arguments were changed before approval
    # The decision made by code in this kernel, such as ``allowed``; "" if the user decided or no approval was needed.
    by_code: str = ""


def step_html(step: Step, limit: int = OUTPUT_LIMIT, *, nested: bool = False) -> Markup:
    """Render the step for the live view.

    Args:
        step: The step.
        limit: Characters of each text inside.
        nested: Whether a sub-agent made the call.
    """
    look = "vibe-step vibe-nested" if nested else "vibe-step"
    line = (
        icon_html(step_icon(step)),
        html_element("span", step_headline(step), class_="vibe-what"),
        html_element("span", _meanwhile_html(step), inert_text(step_result(step)), class_="vibe-came"),
        _time_html(step),
    )
    inside = step_detail(step, LIVE, limit)
    if not inside:
        return html_element("div", *line, class_=look, data_outcome=step.outcome)
    opened = html_element("div", inside, class_="vibe-detail")
    return html_element("details", html_element("summary", *line), opened, class_=look, data_outcome=step.outcome)


def plain_line(event: ToolFinished) -> str:
    """Return a finished call as a line of plain text."""
    step = finished_step(Step(event.headline), event)
    headline = step.headline
    time = seconds_text(step.seconds) if step.seconds is not None else ""
    said = " ".join(word for word in (step_mark(step), _step_verb(step), headline.target, headline.note) if word)
    return readable_text(" · ".join(word for word in (one_line(said), step_result(step), time) if word))


def finished_step(step: Step, event: ToolFinished) -> Step:
    """Return the step with its result. A denial keeps the user's message if the event has none."""
    ran = event.outcome != "denied" and (event.seconds > 0 or event.outcome == "ok")
    return replace(
        step,
        headline=event.headline,
        name=event.name,
        outcome=event.outcome,
        trial=False,
        summary=event.summary or step.summary,
        seconds=event.seconds if ran else None,
        display=event.display,
    )


def step_icon(step: Step) -> str:
    """Return the name of the step's icon: the outcome if it failed, else the kind of tool."""
    return _END_ICONS.get(step.outcome) or (TRIAL if step.trial else tool_icon(step.name))


def step_mark(step: Step) -> str:
    """Return the sign before a plain-text line. The text states its meaning too."""
    return _MARKS.get(step.outcome) or _TOOL_MARKS.get(step.name, _OTHER_MARK)


def step_headline(step: Step) -> Markup:
    """Render verb, target and note."""
    headline = step.headline
    pieces = [html_element("b", inert_text(one_line(_step_verb(step))))]
    if headline.target:
        pieces.append(html_element("code", escape_text(one_line(headline.target))))
    if headline.note:
        pieces.append(inert_text(one_line(headline.note)))
    return Markup(" ".join(pieces))


def _step_verb(step: Step) -> str:
    """Return the verb for what happened. A call that was refused or cut off before it ran gets the verb for asking."""
    if step.outcome == "running":
        return step.headline.doing
    return step.headline.asking if step.outcome != "ok" and step.seconds is None else step.headline.verb


def step_result(step: Step) -> str:
    """Return the result, with the outcome unless it is "ok"; while running, the last line printed or the progress."""
    if step.outcome == "running" and step.trial:
        return NO_EFFECTS
    if step.outcome == "running":
        last = one_line(output_text(step.output).rstrip().rpartition("\n")[2])
        return last if step.progress is None else step.progress.words
    outcome = _WORDS.get(step.outcome, "") if step.outcome != "error" or not step.summary else ""
    edited = "edited by you" if step.edited and not step.by_code else ""
    by_code = f"{step.by_code} by code in this kernel, not by you" if step.by_code else ""
    words = [outcome if step.by_code != outcome else "", edited, by_code, one_line(output_text(step.summary))]
    return " · ".join(dict.fromkeys(word for word in words if word))


def _meanwhile_html(step: Step) -> Markup:
    return bar_html(step.progress) if step.outcome == "running" and not step.trial else NOTHING


def step_detail(step: Step, look: CodeLook, limit: int = OUTPUT_LIMIT) -> Markup:
    """Render what was run and its output. Text previews are omitted, since they repeat the line.

    Args:
        step: The step.
        look: Live or static styles.
        limit: Characters of each text.
    """
    shown = shorten_text(step.preview.text, limit) if step.preview and step.preview.kind != "text" and limit else ""
    pieces: list[Markup] = []
    if step.preview and shown:
        pieces.append(preview_html(step.preview.model_copy(update={"text": shown}), look))
    for media_type, content in step.display.items() if limit else ():
        if not (
            _repeats_preview(step.preview, media_type) and step.preview and _bundle_text(content) == step.preview.text
        ):
            pieces.append(_display_html(media_type, content, look, limit))
    if limit and not step.display and step.output:
        pieces.append(_output_html(step.output, look, limit))
    return join_markup(*pieces)


def _repeats_preview(preview: Preview | None, media_type: str) -> bool:
    """Return whether this MIME type may repeat the preview.

    Printed output is always shown, even if it looks the same.
    """
    return media_type == "text/x-python" or (preview is not None and preview.kind == "diff")


def _display_html(media_type: str, content: JsonValue, look: CodeLook, limit: int) -> Markup:
    match media_type:
        case _ if media_type == TABLE_MIME:
            return _table_html(content, look)
        case _ if media_type == PICTURES_MIME:
            return pictures_html(content, look, limit)
        case _ if media_type == DOWNLOAD_MIME:
            return download_html(content, look, limit)
        case "text/markdown":
            return html_element("div", markdown_html(shorten_text(_bundle_text(content), limit), look))
        case "text/x-python":
            code = Preview(kind="code", text=shorten_text(_bundle_text(content), limit), language="python")
            return preview_html(code, look)
        case "text/plain":
            return _output_html(_bundle_text(content), look, limit)
        case _:
            return NOTHING


def _output_html(text: str, look: CodeLook, limit: int) -> Markup:
    shown = escape_text(shorten_text(output_text(text).rstrip("\n"), limit))
    if not shown:
        return NOTHING
    return (
        html_element("pre", shown, class_="vibe-output") if look is LIVE else html_element("pre", shown, style=KEPT_PRE)
    )


def _table_html(content: JsonValue, look: CodeLook) -> Markup:
    try:
        table = Table.model_validate(content)
    except ValidationError:
        return NOTHING
    head = html_element("tr", *_table_cells("th", table.columns, look))
    rows = [html_element("tr", *_table_cells("td", row, look)) for row in table.rows[:ROWS_LIMIT]]
    if len(table.rows) > ROWS_LIMIT:
        rows.append(html_element("tr", *_table_cells("td", (f"… {len(table.rows) - ROWS_LIMIT:,} more rows",), look)))
    body = (html_element("thead", head), html_element("tbody", *rows))
    return (
        html_element("table", *body, class_="vibe-table")
        if look is LIVE
        else html_element("table", *body, cellpadding="4")
    )


def _table_cells(name: str, texts: Sequence[str], look: CodeLook) -> list[Markup]:
    style = None if look is LIVE else KEPT_LEFT
    return [html_element(name, inert_text(one_line(text)), align="left", style=style) for text in texts]


def _bundle_text(content: JsonValue) -> str:
    """Join MIME data, which may be a string or a list of lines."""
    if isinstance(content, list):
        return "".join(piece for piece in content if isinstance(piece, str))
    return content if isinstance(content, str) else ""


def _time_html(step: Step) -> Markup:
    """Render the duration. While the step runs, the page counts it."""
    running = f"{step.so_far:.1f}" if step.outcome == "running" and step.so_far is not None else None
    took = NOTHING if running or step.seconds is None else escape_text(seconds_text(step.seconds))
    return html_element("span", took, class_="vibe-time", data_vibe_running=running)


def is_read_only(preview: Preview | None) -> bool:
    """Return whether a call only reads: it previews neither code nor a command nor a change."""
    return preview is None or preview.kind == "text"


_NEEDS_OBJECT: Final = re.compile(r" (?:for|of|to)$")  # trailing preposition of a verb whose target follows


def times_text(verb: str, count: int) -> str:
    """Return a verb with a count: in times if the verb includes its object, else in objects."""
    if " " not in verb:
        return f"{verb} {count}"
    return verb if count == 1 else f"{_NEEDS_OBJECT.sub('', verb)} {count} times"


def group_html(steps: Sequence[Step], *, nested: bool = False) -> Markup:
    """Render similar calls as one line that opens. `nested` if a sub-agent made them."""
    outcome = next((step.outcome for step in steps if step.outcome == "running"), _worst_outcome(steps))
    last = next((step for step in steps if step.outcome == "running"), steps[-1])
    verb = last.headline.doing if last.outcome == "running" else last.headline.verb
    took = replace(last, seconds=sum(step.seconds or 0.0 for step in steps))
    line = (
        icon_html(step_icon(last)),
        html_element("span", html_element("b", inert_text(one_line(times_text(verb, len(steps))))), class_="vibe-what"),
        html_element("span", inert_text(_came_text(steps)), class_="vibe-came"),
        _time_html(took),
    )
    inside = html_element("div", *(step_html(step, DETAIL_LIMIT) for step in steps), class_="vibe-detail")
    look = "vibe-step vibe-group vibe-nested" if nested else "vibe-step vibe-group"
    return html_element("details", html_element("summary", *line), inside, class_=look, data_outcome=outcome)


def _worst_outcome(steps: Sequence[Step]) -> str:
    return next((step.outcome for step in steps if step.outcome != "ok"), "ok")


def _came_text(steps: Sequence[Step]) -> str:
    """Return the targets, and the number of failed calls."""
    targets = list(dict.fromkeys(step.headline.target for step in steps if step.headline.target))
    shown = [*targets[:TARGETS_LIMIT], *(["…"] if len(targets) > TARGETS_LIMIT else [])]
    failed = sum(step.outcome not in ("ok", "running") for step in steps)
    words = [", ".join(shown), f"{failed} failed" if failed else ""]
    return one_line(" · ".join(word for word in words if word))


@dataclass
class StepEntry:
    """A call or a thought. Its step is replaced as it progresses."""

    part_id: str
    step: Step
    caller: "StepEntry | None" = None  # the call whose sub-agent made this one
    began: float | None = None  # when it started, on the transcript's clock; None if it isn't running


@dataclass(frozen=True)
class NoticeEntry:
    """A notice, or the error that ended the run."""

    level: Literal["info", "warning", "error"]
    text: str


TranscriptEntry = StreamingText | StepEntry | PlanEntry | NoticeEntry


def file_step(event: FileProduced) -> Step:
    """Return the step of a produced file; a failed step if the file is missing."""
    headline = Headline(
        verb="Made the file",
        doing="Making the file",
        asking="Make the file",
        target=event.name or event.file_id,
        note=f"on {event.host}",
    )
    if event.problem:
        return Step(headline, _NAME, outcome="error", summary=event.problem, seconds=0.0)
    display: MimeBundle = {}
    if event.data and event.media_type in _RASTER:
        picture = Picture(media_type=event.media_type, data=event.data, label=event.name)
        display[PICTURES_MIME] = [picture.model_dump()]
    elif event.preview:
        display["text/plain"] = event.preview
    display[DOWNLOAD_MIME] = Download(name=event.name, data=event.data, path=event.path).model_dump()
    return Step(headline, _NAME, outcome="ok", summary=bytes_text(event.size), display=display)
