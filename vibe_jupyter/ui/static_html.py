"""Static form of a run, which replaces the live view in the saved notebook. No scripts or stylesheets.

Since viewers drop what they please, structure carries the meaning: `<details>` for steps, borders, and literal colors
that are readable on light and dark. No classes, no buttons, nothing interactive, and no blank lines, which would end
the HTML block if the notebook was exported to Markdown.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from vibe_jupyter.protocol import MimeBundle, Usage
from vibe_jupyter.ui.changed_line import changed_html, changed_text
from vibe_jupyter.ui.code import KEPT
from vibe_jupyter.ui.front_end import EVERYTHING, RunRetention
from vibe_jupyter.ui.icons import kept_icon
from vibe_jupyter.ui.markdown_html import markdown_html
from vibe_jupyter.ui.markup import NOTHING, Markup, html_element, inert_text, join_markup
from vibe_jupyter.ui.plan import PlanEntry, kept_plan
from vibe_jupyter.ui.run_output import NO_PIECE
from vibe_jupyter.ui.status_line import (
    NOT_OVER,
    NOT_OVER_NOTE,
    StatusLine,
    clock_text,
    error_words,
    facts_without_server,
    plain_lines,
)
from vibe_jupyter.ui.step import (
    THOUGHT,
    NoticeEntry,
    Step,
    StepEntry,
    TranscriptEntry,
    step_detail,
    step_headline,
    step_icon,
    step_result,
    times_text,
)
from vibe_jupyter.ui.streaming_text import StreamingText
from vibe_jupyter.ui.text import output_text, plural_text, readable_text, seconds_text, shorten_text

KEPT_LIMIT = 200_000  # characters of saved HTML; runs with longer outputs save less of each
PLAIN_LIMIT = 4_000  # characters of saved plain text

# Character limits for each text in a step and for each text of the model, tried in order until everything fits. With
# None, steps are only counted.
_LIMITS = ((8_000, 60_000), (2_000, 15_000), (400, 4_000), (0, 1_000), (None, 500))

_BLANK_LINE = re.compile(r"\n(?=[ \t]*\n)")
# As wide as the live view and in its font; the model's text looks like a Markdown cell.
_WHOLE = "max-width:780px;font-size:13px;line-height:20px;overflow-wrap:break-word"
_QUIET = "opacity:0.72"  # translucent rather than gray: no gray is readable on both light and dark backgrounds
_SAID = "font-size:14px;line-height:22px;margin:8px 0"
_STEP = "margin:0"
_NESTED = "margin:0 0 0 24px"  # a sub-agent's step, below the call it works for
_NO_TRIANGLE = "14px"  # in place of the triangle on lines that don't open, to align the icons
_TIME = f"float:right;font-size:12px;{_QUIET}"  # aligned right; at the end of the line where styles are dropped
_FOLD = "margin:0 0 8px;padding:3px 0"
_BOX = "border-left:1px solid #8c8c8c;margin:2px 0 8px 8px;padding:0 0 0 15px"
_FOOT = "border-top:1px solid #8c8c8c;margin:10px 0 0 0;padding:5px 0 0 0;font-size:12px"
_LEVELS = {"info": "#8c8c8c", "warning": "#b26a00", "error": "#d93a3a"}
_ERROR_GROUND = "rgba(217,58,58,0.08)"
_STATES = {"done": "#2e8b40", "failed": "#d93a3a"}


# Labels of unsuccessful steps, in display order.
_END_WORDS: Final = ("failed", "denied", "interrupted", "not finished", "not run")


class PieceEnds:
    """Steps whose outputs are in the cell, in its order. Each ends a piece of the saved output."""

    def __init__(self, entries: Sequence[TranscriptEntry]) -> None:
        self.steps: list[StepEntry] = []
        self._entries = entries

    @property
    def pieces(self) -> int:
        return len(self.steps) + 1

    def add(self, step: StepEntry | None) -> None:
        """Record that a step has output. Outputs of parallel calls go after the last step that has some."""
        last = self.steps[-1] if self.steps else None
        if step is None or (last is not None and self._entries.index(step) < self._entries.index(last)):
            step = last
        if step is not None:
            self.steps.append(step)


def static_bundle(
    entries: Sequence[TranscriptEntry], foot: StatusLine, answer: str, *, keep: RunRetention = EVERYTHING
) -> MimeBundle:
    """Return the MIME bundle of a run, finished or not."""
    return static_pieces(entries, foot, answer, keep=keep)[0]


def static_pieces(
    entries: Sequence[TranscriptEntry],
    foot: StatusLine,
    answer: str,
    *,
    keep: RunRetention = EVERYTHING,
    ends: Sequence[StepEntry] = (),
) -> list[MimeBundle]:
    """Return the bundle in pieces. Each step in `ends` ends a piece, since its outputs follow it in the cell."""
    facts_shown, facts_told = _shown_facts(foot, keep)
    if not keep.times:  # "info" notices only say how long a retry waited
        entries = [entry for entry in entries if not isinstance(entry, NoticeEntry) or _is_worth_showing(entry)]
    if keep.form == "none":
        return [*[NO_PIECE] * len(ends), _trace_bundle(entries, foot)]
    htmls: list[Markup] = []
    for detail_limit, answer_limit in _LIMITS:
        if detail_limit is not None and _least_length(entries, detail_limit, answer_limit) > KEPT_LIMIT:
            continue
        made = _Kept(detail_limit, answer_limit, keep, is_over=foot.words != NOT_OVER)
        *before, last = made.bodies(entries, ends)
        note = _notice_html(NoticeEntry("info", NOT_OVER_NOTE)) if foot.words == NOT_OVER else NOTHING
        last += [note, changed_html(foot.changed) if foot.changed else NOTHING, _foot_line(foot, facts_shown)]
        htmls = [
            _without_blank_lines(html_element("div", *body, style=_WHOLE)) if body else NOTHING
            for body in (*before, last)
        ]
        if sum(map(len, htmls)) <= KEPT_LIMIT:
            break
    plain = _plain_summary(entries, [foot.words, *_counted_steps(entries), *facts_told], answer, foot)
    return [
        *({"text/html": html, "text/plain": ""} for html in htmls[:-1]),
        {"text/html": htmls[-1], "text/plain": plain},
    ]


def _trace_bundle(entries: Sequence[TranscriptEntry], foot: StatusLine) -> MimeBundle:
    """Return a one-line bundle saying how the run ended, plus its errors, which require action."""
    line = f"A run was here: {', '.join([foot.words, *_counted_steps(entries)])}."
    errors = [entry for entry in entries if isinstance(entry, NoticeEntry) and entry.level == "error"]
    html = html_element(
        "div", inert_text(line), *(html_element("div", error_words(error.text)) for error in errors), style=_QUIET
    )
    return {
        "text/html": _without_blank_lines(html),
        "text/plain": "\n\n".join([line, *(output_text(e.text) for e in errors)]),
    }


def _without_blank_lines(html: Markup) -> Markup:
    """Escape blank lines: Markdown would end the HTML block there and parse the rest itself."""
    return Markup(_BLANK_LINE.sub("&#10;", html))


def _least_length(entries: Sequence[TranscriptEntry], detail_limit: int, answer_limit: int) -> int:
    """Return a lower bound of the HTML's length, to skip rendering under limits that can't fit."""
    if not entries:
        return 0
    texts = [min(len(entry.text), answer_limit) for entry in entries if isinstance(entry, StreamingText)]
    previews = [step.preview.text for step in call_steps(entries) if step.preview is not None]
    return sum(texts) + sum(min(len(text), detail_limit) for text in previews)


class _Kept:
    """A rendering with given limits."""

    def __init__(self, detail_limit: int | None, answer_limit: int, keep: RunRetention, *, is_over: bool) -> None:
        self._detail_limit = detail_limit
        self._answer_limit = answer_limit
        self._keep = keep
        self._is_over = is_over

    def bodies(self, entries: Sequence[TranscriptEntry], ends: Sequence[StepEntry]) -> list[list[Markup]]:
        """Render everything but the foot: one list per piece, then the rest."""
        if self._keep.form == "summary":
            return [*([] for _ in ends), self._summary_html(entries)]
        pieces: list[list[Markup]] = []
        begins = 0
        for end in map(entries.index, ends):
            before, step = entries[begins:end], entries[end : end + 1] if end >= begins else ()
            pieces.append([*self._folded(before), *map(self._entry_html, step)])
            begins = max(begins, end + 1)
        rest = self._full_html(entries[begins:])
        plan = [self._entry_html(entry) for entry in entries if isinstance(entry, PlanEntry)]
        (pieces[0] if pieces else rest)[:0] = plan
        return [*pieces, rest]

    def _summary_html(self, entries: Sequence[TranscriptEntry]) -> list[Markup]:
        """Render the line of steps, the last answer, and warnings and errors."""
        steps = call_steps(entries)
        answer = next((entry for entry in reversed(entries) if isinstance(entry, StreamingText)), None)
        rest = [entry for entry in entries if entry is answer or _is_worth_showing(entry)]
        line = [html_element("div", self._steps_line(steps), style=_FOLD)] if steps else []
        return line + [self._entry_html(entry) for entry in rest]

    def _full_html(self, entries: Sequence[TranscriptEntry]) -> list[Markup]:
        last = max([at for at, entry in enumerate(entries) if isinstance(entry, StepEntry)], default=-1)
        after = _without_plan(entries[last + 1 :])
        return [*self._folded(entries[: last + 1]), *map(self._entry_html, after)]

    def _folded(self, entries: Sequence[TranscriptEntry]) -> list[Markup]:
        """Render the entries, folding two or more steps into one line."""
        if not entries:
            return []
        before = _without_plan(entries)
        steps = call_steps(before)
        shown = [self._entry_html(entry) for entry in before] if self._detail_limit is not None else []
        if len(steps) > 1:
            words = self._steps_line(steps)
            inside = html_element("div", *shown, style=_BOX)
            fold = html_element("details", html_element("summary", words), inside, style=_FOLD)
            shown = [fold if shown else html_element("div", words, style=_FOLD)]
        return shown

    def _entry_html(self, entry: TranscriptEntry) -> Markup:
        match entry:
            case StreamingText():
                return html_element(
                    "div",
                    markdown_html(shorten_text(entry.text, self._answer_limit), KEPT, entry.find_cell),
                    style=_SAID,
                )
            case StepEntry():
                return self._step_html(entry.step, _STEP if entry.caller is None else _NESTED)
            case PlanEntry():
                return kept_plan(entry.plan)
            case NoticeEntry():
                return _notice_html(entry)

    def _step_html(self, step: Step, style: str) -> Markup:
        headline, result = step_headline(step), step_result(step)
        if step.outcome == "running" and not self._is_over:  # a saved output must not claim that something is running
            headline = step_headline(_cut_off(step))
            result = "not finished" if _has_begun(step) else "not run"
        line = join_markup(
            kept_icon(step_icon(step)),
            headline,
            html_element("span", inert_text(f"  {result}"), style=_QUIET),
            self._time_html([step]),
        )
        inside = step_detail(step, KEPT, self._detail_limit or 0)
        if not inside:
            return html_element("div", line, style=f"{style};padding:3px 0 3px {_NO_TRIANGLE}")
        return html_element(
            "details",
            html_element("summary", line),
            html_element("div", inside, style=_BOX),
            style=f"{style};padding:3px 0",
        )

    def _steps_line(self, steps: Sequence[Step]) -> Markup:
        return join_markup(
            kept_icon("steps"),
            html_element("b", inert_text(plural_text(len(steps), "step"))),
            html_element("span", inert_text(f"  {steps_tally(steps)}"), style=_QUIET),
            self._time_html(steps),
        )

    def _time_html(self, steps: Sequence[Step]) -> Markup:
        """Render how long the steps took, or nothing if none ran or times aren't saved."""
        took = [step.seconds for step in steps if step.seconds is not None]
        if not took or not self._keep.times:
            return NOTHING
        return html_element("span", inert_text(f"  {seconds_text(sum(took))}"), style=_TIME)


def _notice_html(entry: NoticeEntry) -> Markup:
    is_error = entry.level == "error"
    words = error_words(entry.text) if is_error else plain_lines(entry.text)
    room = f"padding:8px 12px;background-color:{_ERROR_GROUND}" if is_error else "padding:4px 0 4px 10px"
    return html_element("div", words, style=f"border-left:3px solid {_LEVELS[entry.level]};margin:8px 0;{room}")


def _without_plan(entries: Sequence[TranscriptEntry]) -> list[TranscriptEntry]:
    return [entry for entry in entries if not isinstance(entry, PlanEntry)] if entries else []


def _is_worth_showing(entry: TranscriptEntry) -> bool:
    return isinstance(entry, NoticeEntry) and entry.level != "info"


def steps_tally(steps: Sequence[Step]) -> str:
    """Summarize the steps' outcomes: ``ran code 3 times (1 failed) · 1 denied · 1 not run``."""
    failed = Counter(_step_doing(step) for step in steps if _failed_in_running(step))
    done = failed + Counter(_step_doing(step) for step in steps if step.outcome == "ok")
    ends = Counter(_end_word(step) for step in steps if not _failed_in_running(step))
    words = [
        _with_failures(verb, done[verb], failed[verb]) for verb in dict.fromkeys(map(_step_doing, steps)) if done[verb]
    ]
    return " · ".join(words + [f"{ends[word]} {word}" for word in _END_WORDS if ends[word]])


def _end_word(step: Step) -> str:
    """Return the label of an unsuccessful step, or ''."""
    if step.outcome == "running":
        return "not finished" if _has_begun(step) else "not run"
    if step.outcome == "interrupted":
        return "interrupted" if step.seconds is not None else "not run"
    return {"error": "failed", "denied": "denied"}.get(step.outcome, "")


def _has_begun(step: Step) -> bool:
    return step.so_far is not None and not step.trial


def _cut_off(step: Step) -> Step:
    """Return the step as interrupted by the end of its kernel."""
    return replace(step, outcome="interrupted", seconds=0.0 if _has_begun(step) else None)


def _with_failures(verb: str, count: int, failed: int) -> str:
    failures = f" ({failed} failed)" if count > 1 else " (failed)"
    return times_text(verb, count) + (failures if failed else "")


def _failed_in_running(step: Step) -> bool:
    """Return whether the call failed while running. A call with rejected arguments never ran."""
    return step.outcome == "error" and step.seconds is not None


def _step_doing(step: Step) -> str:
    verb = step.headline.verb
    return f"{verb[:1].lower()}{verb[1:]}"


def call_steps(entries: Sequence[TranscriptEntry]) -> list[Step]:
    """Return the steps that are tool calls rather than thoughts."""
    return [entry.step for entry in entries if isinstance(entry, StepEntry) and entry.step.name != THOUGHT]


def _shown_facts(foot: StatusLine, keep: RunRetention) -> tuple[list[str], list[str]]:
    """Return the facts of the status line for HTML (without the server) and for plain text."""
    if not keep.times:
        return facts_without_server(replace(foot, usage=Usage(), cost=None, context=None))
    clock = clock_text(foot)
    shown, told = facts_without_server(foot)
    return [clock, *shown], [clock, *told]


def _counted_steps(entries: Sequence[TranscriptEntry]) -> list[str]:
    steps = len(call_steps(entries)) if entries else 0
    return [plural_text(steps, "step")] if steps else []


def _foot_line(foot: StatusLine, facts_shown: Sequence[str]) -> Markup:
    colour = _STATES.get(foot.state)
    dot = html_element("span", Markup("●" if colour else "○"), style=f"color:{colour}" if colour else _QUIET)
    rest = html_element("span", inert_text(" · ".join(["", *facts_shown])), style=_QUIET)
    return html_element("div", dot, Markup(" "), html_element("b", inert_text(foot.words)), rest, style=_FOOT)


def _plain_summary(entries: Sequence[TranscriptEntry], last_line: Sequence[str], answer: str, foot: StatusLine) -> str:
    errors = [output_text(entry.text) for entry in entries if isinstance(entry, NoticeEntry) and entry.level != "info"]
    pieces = [
        readable_text(shorten_text(answer.strip(), PLAIN_LIMIT)),
        *errors,
        readable_text(changed_text(foot.changed)) if foot.changed else "",
        readable_text(" · ".join(last_line)),
    ]
    return "\n\n".join(filter(None, pieces))
