"""What the notebook keeps of a run: HTML that needs neither script nor stylesheet, and a few lines of plain text.

Structure carries it, since viewers drop what they please: `<details>` for steps, literal colours that read on white
and on black, borders. No class, no button, nothing that waits for an answer, no blank line, which would end it where a
notebook was exported to Markdown.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from vibe_jupyter.protocol import MimeBundle, Usage
from vibe_jupyter.ui.answer import Answer
from vibe_jupyter.ui.code import KEPT
from vibe_jupyter.ui.entries import Entry, Remark, StepEntry
from vibe_jupyter.ui.foot import Foot, clock, facts
from vibe_jupyter.ui.group import times
from vibe_jupyter.ui.keep import EVERYTHING, Keep
from vibe_jupyter.ui.markup import NOTHING, Markup, element, inert, joined
from vibe_jupyter.ui.remark import error_words, lines
from vibe_jupyter.ui.rendered import markdown_html
from vibe_jupyter.ui.step import THOUGHT, Step, came, detail, mark, what
from vibe_jupyter.ui.text import output_text, plural, readable, seconds_text, shorten

KEPT_LIMIT = 200_000
"""Characters of the kept HTML; a run with longer outputs keeps less of each."""
PLAIN_LIMIT = 4_000
"""Characters of the kept plain text."""

_LIMITS = ((8_000, 60_000), (2_000, 15_000), (400, 4_000), (0, 1_000), (None, 500))
"""Characters of each text inside a step and of each text of the model, tried in this order until the whole fits.

With None the steps are only counted.
"""

_BLANK_LINE = re.compile(r"\n(?=[ \t]*\n)")
_WHOLE = "overflow-wrap:break-word"
_QUIET = "opacity:0.75"
"""No grey reads well on white and on dark; a paler shade of the page's own colour does."""
_SAID = "margin:8px 0"
_FOLD = "margin:0 0 8px"
_BOX = "border-left:2px solid #8c8c8c;margin:4px 0 8px 6px;padding:0 0 0 12px"
_FOOT = "border-top:1px solid #8c8c8c;margin:10px 0 0 0;padding:5px 0 0 0;font-size:90%"
_LEVELS = {"info": "#8c8c8c", "warning": "#b26a00", "error": "#d32f2f"}
_STATES = {"done": "#2e8b40", "stopped": "#b26a00", "failed": "#d93a3a"}


def kept(entries: Sequence[Entry], foot: Foot, answer: str, *, keep: Keep = EVERYTHING) -> MimeBundle:
    """The MIME bundle of a run that is over, or of one that is shown as far as it is."""
    facts_shown = _facts(foot, keep)
    if not keep.times:  # what only informs is how long a retry waited
        entries = [entry for entry in entries if not isinstance(entry, Remark) or _matters(entry)]
    if keep.form == "none":
        return _trace(entries, foot)
    html = NOTHING
    for detail_limit, answer_limit in _LIMITS:
        if detail_limit is not None and _least(entries, detail_limit, answer_limit) > KEPT_LIMIT:
            continue
        made = _Kept(detail_limit, answer_limit, keep)
        html = _unbroken(element("div", *made.body(entries), _foot(foot, facts_shown), style=_WHOLE))
        if len(html) <= KEPT_LIMIT:
            break
    return {"text/html": html, "text/plain": _plain(entries, [foot.words, *_counted(entries), *facts_shown], answer)}


def _trace(entries: Sequence[Entry], foot: Foot) -> MimeBundle:
    """That a run was here and how it ended, with its error if it failed: somebody has to act on that."""
    line = f"A run was here: {', '.join([foot.words, *_counted(entries)])}."
    errors = [entry for entry in entries if isinstance(entry, Remark) and entry.level == "error"]
    html = element("div", inert(line), *(element("div", error_words(error.text)) for error in errors), style=_QUIET)
    return {"text/html": _unbroken(html), "text/plain": "\n\n".join([line, *(output_text(e.text) for e in errors)])}


def _unbroken(html: Markup) -> Markup:
    """The same without blank lines: Markdown would end the HTML there and read the rest as its own."""
    return Markup(_BLANK_LINE.sub("&#10;", html))


def _least(entries: Sequence[Entry], detail_limit: int, answer_limit: int) -> int:
    """Characters the HTML has at least: a cheap way to see that it is too long."""
    texts = [min(len(entry.text), answer_limit) for entry in entries if isinstance(entry, Answer)]
    previews = [step.preview.text for step in calls(entries) if step.preview is not None]
    return sum(texts) + sum(min(len(text), detail_limit) for text in previews)


class _Kept:
    """One rendering under one set of limits."""

    def __init__(self, detail_limit: int | None, answer_limit: int, keep: Keep) -> None:
        self._detail_limit = detail_limit
        self._answer_limit = answer_limit
        self._keep = keep

    def body(self, entries: Sequence[Entry]) -> list[Markup]:
        """All but the foot."""
        return self._summary(entries) if self._keep.form == "summary" else self._full(entries)

    def _summary(self, entries: Sequence[Entry]) -> list[Markup]:
        """One line of steps, the last answer, and what a person must know of."""
        steps = calls(entries)
        answer = next((entry for entry in reversed(entries) if isinstance(entry, Answer)), None)
        rest = [entry for entry in entries if entry is answer or _matters(entry)]
        line = [element("div", _steps_line(steps), style=_FOLD)] if steps else []
        return line + [self._entry(entry) for entry in rest]

    def _full(self, entries: Sequence[Entry]) -> list[Markup]:
        last = max((at for at, entry in enumerate(entries) if isinstance(entry, StepEntry)), default=-1)
        before, after = entries[: last + 1], entries[last + 1 :]
        steps = calls(before)
        shown = [self._entry(entry) for entry in before] if self._detail_limit is not None else []
        if len(steps) > 1:
            words = _steps_line(steps)
            inside = element("div", *shown, style=_BOX)
            fold = element("details", element("summary", words), inside, style=_FOLD)
            shown = [fold if shown else element("div", words, style=_FOLD)]
        return [*shown, *(self._entry(entry) for entry in after)]

    def _entry(self, entry: Entry) -> Markup:
        match entry:
            case Answer():
                return element("div", markdown_html(shorten(entry.text, self._answer_limit), KEPT), style=_SAID)
            case StepEntry():
                return self._step(entry.step)
            case Remark():
                words = error_words(entry.text) if entry.level == "error" else lines(entry.text)
                style = f"border-left:3px solid {_LEVELS[entry.level]};margin:8px 0;padding:4px 0 4px 10px"
                return element("div", words, style=style)

    def _step(self, step: Step) -> Markup:
        time = seconds_text(step.seconds) if step.seconds is not None and self._keep.times else ""
        words = " · ".join(word for word in (came(step), time) if word)
        line = joined(inert(f"{mark(step)} "), what(step), element("span", inert(f"  {words}"), style=_QUIET))
        inside = detail(step, KEPT, self._detail_limit or 0)
        if not inside:
            return element("div", line, style="margin:2px 0")
        return element("details", element("summary", line), element("div", inside, style=_BOX), style="margin:2px 0")


def _matters(entry: Entry) -> bool:
    return isinstance(entry, Remark) and entry.level != "info"


def _steps_line(steps: Sequence[Step]) -> Markup:
    return joined(element("b", inert(plural(len(steps), "step"))), inert(f": {tally(steps)}"))


def tally(steps: Sequence[Step]) -> str:
    """``listed variables, inspected 2, ran code 3 times (1 failed), 1 denied``."""
    failed = Counter(_doing(step) for step in steps if _failed_in_running(step))
    done = failed + Counter(_doing(step) for step in steps if step.outcome in ("ok", "running"))
    ends = Counter(step.outcome for step in steps if not _failed_in_running(step))
    words = [_with_failures(verb, done[verb], failed[verb]) for verb in dict.fromkeys(map(_doing, steps)) if done[verb]]
    named = (("error", "failed"), ("denied", "denied"), ("interrupted", "interrupted"))
    return ", ".join(words + [f"{ends[outcome]} {word}" for outcome, word in named if ends[outcome]])


def _with_failures(verb: str, count: int, failed: int) -> str:
    failures = f" ({failed} failed)" if count > 1 else " (failed)"
    return times(verb, count) + (failures if failed else "")


def _failed_in_running(step: Step) -> bool:
    """A call whose arguments were refused never ran."""
    return step.outcome == "error" and step.seconds is not None


def _doing(step: Step) -> str:
    verb = step.headline.verb
    return f"{verb[:1].lower()}{verb[1:]}"


def calls(entries: Sequence[Entry]) -> list[Step]:
    """The steps that were calls, and not thoughts."""
    steps = [entry.step for entry in entries if isinstance(entry, StepEntry)]
    return [step for step in steps if step.name != THOUGHT]


def _facts(foot: Foot, keep: Keep) -> list[str]:
    """What the foot says behind the state."""
    return [*facts(foot), clock(foot)] if keep.times else facts(replace(foot, usage=Usage(), cost=None))


def _counted(entries: Sequence[Entry]) -> list[str]:
    steps = len(calls(entries))
    return [plural(steps, "step")] if steps else []


def _foot(foot: Foot, facts_shown: Sequence[str]) -> Markup:
    dot = element("span", Markup("●"), style=f"color:{_STATES.get(foot.state, '#767676')}")
    rest = element("span", inert("".join(f" · {fact}" for fact in facts_shown)), style=_QUIET)
    return element("div", dot, Markup(" "), element("b", inert(foot.words)), rest, style=_FOOT)


def _plain(entries: Sequence[Entry], last_line: Sequence[str], answer: str) -> str:
    errors = [output_text(entry.text) for entry in entries if isinstance(entry, Remark) and entry.level != "info"]
    pieces = [readable(shorten(answer.strip(), PLAIN_LIMIT)), *errors, readable(" · ".join(last_line))]
    return "\n\n".join(piece for piece in pieces if piece)
