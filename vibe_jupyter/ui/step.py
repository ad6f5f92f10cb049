"""A tool call as one quiet line, what it shows when opened, and lines joined into groups."""

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

KEPT_SHARE = 15
"""Characters of base64 that are kept for each character a text beside it may have: 120,000 where there is room."""
PICTURES_LIMIT = 12
"""Pictures shown in a step."""

_PICTURES = TypeAdapter(tuple[Picture, ...])
_DOWNLOADS: TypeAdapter[Download | tuple[Download, ...]] = TypeAdapter(Download | tuple[Download, ...])
_SOUNDS = frozenset({"audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3", "audio/mp4", "audio/ogg", "audio/webm"})
"""What browsers play; nothing of it can do anything else."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
DOWNLOADS_LIMIT = 12
"""Files offered in a step."""


def pictures_html(content: JsonValue, look: CodeLook, limit: int) -> Markup:
    """Raster pictures that came as data."""
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
    """Where each file is, and a link that saves it where it came along; a sound can be heard."""
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
        # Never its own type: a click saves it, and no page of it is opened.
        address = f"data:application/octet-stream;base64,{download.data}"
        name = one_line(download.name) or "file"
        pieces.append(html_element("a", inert_text(f"Download {name}"), href=address, download=name))
    if download.path:
        pieces.append(join_markup(inert_text("Kept as "), html_element("code", escape_text(download.path))))
    if not pieces:
        return NOTHING
    return html_element("div", Markup(" · ".join(pieces)), class_="vibe-prose" if look is LIVE else None)


def _picture_html(picture: Picture, most: int | None) -> Markup:
    """One of them; `most` is how many characters of base64 are kept, None for all."""
    address = f"data:{picture.media_type};base64,{picture.data}"
    label = one_line(picture.label) or "picture"
    if not is_picture(address):
        return html_element("div", inert_text(f"{label}: no picture that can be shown"))
    if most is not None and len(picture.data) > most:
        size = bytes_text(len(picture.data) * 3 // 4)
        return html_element("div", inert_text(f"{label}: {size}, too large to be kept in the notebook"))
    width, height = picture_size(address) or (None, None)
    style = None if most is None else "max-width:100%;height:auto"
    image = html_element("img", src=address, alt=label, width=width, height=height, style=style)
    return html_element("div", Markup(image.removesuffix("</img>")))


WORDS_LIMIT = 80
"""Characters of what a tool says beside it."""

EXACT = 1e12
"""A number from which on its digits say nothing to anybody."""

Outcome = Literal["running", "ok", "error", "denied", "interrupted"]

THOUGHT = "thought"
"""The name of a step that is no call: what the model thought before it answered."""
PROGRESS_LIMIT = 4_000
"""Characters of a running tool's output that stay on the page: the newest."""
ROWS_LIMIT = 60
"""Rows of a table shown in a step."""

TRIAL: Final = "trial"
"""The icon of a call that is tried where it has no effects."""
NO_EFFECTS: Final = "nothing can change"

_MARKS: Mapping[Outcome, str] = {"running": "●", "error": "✕", "denied": "⊘", "interrupted": "■"}
_END_ICONS: Mapping[Outcome, str] = {"error": "failed", "denied": "denied", "interrupted": "stop"}
_TOOL_MARKS = {"run_code": "▷", "inspect": "▦", THOUGHT: "✻"}
_OTHER_MARK = "▤"
_WORDS: Mapping[Outcome, str] = {"error": "failed", "denied": "denied", "interrupted": "interrupted"}

GROUP_LIMIT = 20
"""Calls in one line; what comes after begins another, since all of a line is sent again when one of its calls ends."""
DETAIL_LIMIT = 2_000
"""Characters of each text inside a call of a group."""
TARGETS_LIMIT = 4
"""Things that are named on the line."""

_NAME = "server_file"
_RASTER = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


@dataclass(frozen=True)
class CallProgressState:
    """As a tool told it last."""

    done: float
    total: float | None
    """None where the tool does not know."""
    said: str
    """Its own words; may be empty."""

    @property
    def words(self) -> str:
        """``3 of 10 · loading``."""
        known = "" if self.total is None else f" of {_number_text(self.total)}"
        said = one_line(output_text(self.said), WORDS_LIMIT)
        return " · ".join(word for word in (f"{_number_text(self.done)}{known}", said) if word)


class Milestones:
    """Lines for where nothing can be redrawn: one for each tenth of the way."""

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        self._tenths: dict[str, int] = {}

    def begin(self, event: ToolStarted) -> None:
        """A call began."""
        headline = event.headline
        self._calls[event.call_id] = " ".join(filter(None, (headline.doing, headline.target, headline.note)))
        self._tenths[event.call_id] = 0

    def line(self, event: ToolProgress) -> str:
        """What to say of it; empty as long as it has not come much further."""
        if event.done is None or not event.total or event.call_id not in self._calls:
            return ""
        tenth = int(min(event.done / event.total, 1.0) * 10)
        if tenth <= self._tenths[event.call_id]:
            return ""
        self._tenths[event.call_id] = tenth
        how_far = CallProgressState(event.done, event.total, event.text).words
        return readable_text(one_line(f"{self._calls[event.call_id]} · {how_far}"))


def bar_html(progress: CallProgressState | None) -> Markup:
    """A bar that moves, where it is known how far it goes."""
    if progress is None or progress.total is None:
        return NOTHING
    done = min(progress.done, progress.total)
    # What stands beside it in words need not be read out twice.
    return html_element("progress", max=_number_text(progress.total), value=_number_text(done), aria_hidden="true")


def _number_text(value: float) -> str:
    """Without a sign of how a computer keeps it."""
    return str(int(value)) if value < EXACT and value == int(value) else f"{value:.6g}"


@dataclass(frozen=True)
class Step:
    """One call, as far as it went."""

    headline: Headline
    name: str = ""
    """The tool's; empty until it started."""
    preview: Preview | None = None
    outcome: Outcome = "running"
    summary: str = ""
    seconds: float | None = None
    """None where nothing ran."""
    so_far: float | None = None
    """Seconds that it has run when it is shown, which the page counts on; None where it does not run."""
    display: MimeBundle = field(default_factory=dict[str, JsonValue])
    output: str = ""
    """What it printed so far; shown until `display` says it finally."""
    progress: CallProgressState | None = None
    """How far it is; None where the tool does not say."""
    trial: bool = False
    """Whether it is tried where it has no effects."""
    edited: bool = False
    """Whether the call was changed before it was allowed."""
    by_code: str = ""
    """What code in this kernel decided about it, such as ``allowed``; empty where you did, or where nothing asked."""


def step_html(step: Step, limit: int = OUTPUT_LIMIT, *, nested: bool = False) -> Markup:
    """The step in the live view; each text inside at most `limit` characters. One of a sub-agent is `nested`."""
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
    """A finished call as a line of plain text."""
    step = finished_step(Step(event.headline), event)
    headline = step.headline
    time = seconds_text(step.seconds) if step.seconds is not None else ""
    said = " ".join(word for word in (step_mark(step), _step_verb(step), headline.target, headline.note) if word)
    return readable_text(" · ".join(word for word in (one_line(said), step_result(step), time) if word))


def finished_step(step: Step, event: ToolFinished) -> Step:
    """The step at its end. A denial keeps the user's words when the event has none."""
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
    """The name of the icon before the line: how it ended where it did not succeed, else what kind of step it is."""
    return _END_ICONS.get(step.outcome) or (TRIAL if step.trial else tool_icon(step.name))


def step_mark(step: Step) -> str:
    """The sign before the line where there is only text; its meaning also stands in words."""
    return _MARKS.get(step.outcome) or _TOOL_MARKS.get(step.name, _OTHER_MARK)


def step_headline(step: Step) -> Markup:
    """Verb, object, and a few words."""
    headline = step.headline
    pieces = [html_element("b", inert_text(one_line(_step_verb(step))))]
    if headline.target:
        pieces.append(html_element("code", escape_text(one_line(headline.target))))
    if headline.note:
        pieces.append(inert_text(one_line(headline.note)))
    return Markup(" ".join(pieces))


def _step_verb(step: Step) -> str:
    """What was done, or would have been: a call that was refused or cut off before it ran did nothing."""
    if step.outcome == "running":
        return step.headline.doing
    return step.headline.asking if step.outcome != "ok" and step.seconds is None else step.headline.verb


def step_result(step: Step) -> str:
    """What came back, with the outcome in words wherever it is not a success; meanwhile, the last line printed."""
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
    """What was run and what it gave; each text at most `limit` characters. A preview in words is the line again."""
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
    """Whether a display of this kind may be the preview again; what code prints may only look like it."""
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
    """The text of a MIME bundle, which may be one string or a list of lines."""
    if isinstance(content, list):
        return "".join(piece for piece in content if isinstance(piece, str))
    return content if isinstance(content, str) else ""


def _time_html(step: Step) -> Markup:
    """How long it took; the page counts it while the step runs, from a second on."""
    running = f"{step.so_far:.1f}" if step.outcome == "running" and step.so_far is not None else None
    took = NOTHING if running or step.seconds is None else escape_text(seconds_text(step.seconds))
    return html_element("span", took, class_="vibe-time", data_vibe_running=running)


def is_read_only(preview: Preview | None) -> bool:
    """Whether a call only looks: it shows neither code nor a command nor a change."""
    return preview is None or preview.kind == "text"


_NEEDS_OBJECT: Final = re.compile(r" (?:for|of|to)$")
"""What a verb ends with where its object stands behind it."""


def times_text(verb: str, count: int) -> str:
    """A verb that names its object is counted in times, another in objects."""
    if " " not in verb:
        return f"{verb} {count}"
    return verb if count == 1 else f"{_NEEDS_OBJECT.sub('', verb)} {count} times"


def group_html(steps: Sequence[Step], *, nested: bool = False) -> Markup:
    """The line in the live view; the calls stand in it. Those of a sub-agent are `nested`."""
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
    """What was looked at, and how often in vain."""
    targets = list(dict.fromkeys(step.headline.target for step in steps if step.headline.target))
    shown = [*targets[:TARGETS_LIMIT], *(["…"] if len(targets) > TARGETS_LIMIT else [])]
    failed = sum(step.outcome not in ("ok", "running") for step in steps)
    words = [", ".join(shown), f"{failed} failed" if failed else ""]
    return one_line(" · ".join(word for word in words if word))


@dataclass
class StepEntry:
    """A call, or a thought; its step is replaced as it goes on."""

    part_id: str
    step: Step
    caller: "StepEntry | None" = None
    """The call for which a sub-agent works that made this one."""
    began: float | None = None
    """Seconds on the transcript's clock at which it began to run; None while it does not."""


@dataclass(frozen=True)
class NoticeEntry:
    """A word of ours, or the error the run ended with."""

    level: Literal["info", "warning", "error"]
    text: str


TranscriptEntry = StreamingText | StepEntry | PlanEntry | NoticeEntry


def file_step(event: FileProduced) -> Step:
    """The step of a file; failed where there is none."""
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
