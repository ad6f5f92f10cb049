"""What the notebook keeps of a run: HTML that needs neither script nor stylesheet, and a few lines of plain text.

Structure carries it, since viewers drop what they please: `<details>` for steps, literal colours that read on white
and on black, borders. No class, no button, nothing that waits for an answer.
"""

from collections import Counter
from collections.abc import Sequence

from vibe_jupyter.protocol import MimeBundle
from vibe_jupyter.ui.answer import Answer
from vibe_jupyter.ui.code import KEPT
from vibe_jupyter.ui.entries import Entry, Remark, StepEntry
from vibe_jupyter.ui.foot import Foot, clock, facts, foot_line
from vibe_jupyter.ui.html import markdown_html
from vibe_jupyter.ui.markup import NOTHING, Markup, element, inert, joined
from vibe_jupyter.ui.remark import error_words, lines
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

_QUIET = "color:#767676"
_FOLD = "margin:0 0 8px"
_BOX = "border-left:2px solid #8c8c8c;margin:4px 0 8px 6px;padding:0 0 0 12px"
_FOOT = "border-top:1px solid #8c8c8c;margin:10px 0 0 0;padding:5px 0 0 0;color:#767676;font-size:90%"
_LEVELS = {"info": "#8c8c8c", "warning": "#b26a00", "error": "#d32f2f"}
_STATES = {"done": "#2e8b40", "stopped": "#b26a00", "failed": "#d93a3a"}


def kept(entries: Sequence[Entry], foot: Foot, answer: str) -> MimeBundle:
    """The MIME bundle of a run that is over, or of one that is shown as far as it is."""
    html = NOTHING
    for detail_limit, answer_limit in _LIMITS:
        if detail_limit is not None and _least(entries, detail_limit, answer_limit) > KEPT_LIMIT:
            continue
        html = _Kept(detail_limit, answer_limit).html(entries, foot)
        if len(html) <= KEPT_LIMIT:
            break
    return {"text/html": html, "text/plain": _plain(entries, foot, answer)}


def _least(entries: Sequence[Entry], detail_limit: int, answer_limit: int) -> int:
    """Characters the HTML has at least: a cheap way to see that it is too long."""
    texts = [min(len(entry.text), answer_limit) for entry in entries if isinstance(entry, Answer)]
    previews = [step.preview.text for step in calls(entries) if step.preview is not None]
    return sum(texts) + sum(min(len(text), detail_limit) for text in previews)


class _Kept:
    """One rendering under one set of limits."""

    def __init__(self, detail_limit: int | None, answer_limit: int) -> None:
        self._detail_limit = detail_limit
        self._answer_limit = answer_limit

    def html(self, entries: Sequence[Entry], foot: Foot) -> Markup:
        """All of it."""
        last = max((at for at, entry in enumerate(entries) if isinstance(entry, StepEntry)), default=-1)
        before, after = entries[: last + 1], entries[last + 1 :]
        steps = calls(before)
        shown = [self._entry(entry) for entry in before] if self._detail_limit is not None else []
        if len(steps) > 1:
            words = joined(element("b", inert(plural(len(steps), "step"))), inert(f": {tally(steps)}"))
            inside = element("div", *shown, style=_BOX)
            fold = element("details", element("summary", words), inside, style=_FOLD)
            shown = [fold if shown else element("div", words, style=_FOLD)]
        return element("div", *shown, *(self._entry(entry) for entry in after), _foot(foot))

    def _entry(self, entry: Entry) -> Markup:
        match entry:
            case Answer():
                return element("div", markdown_html(shorten(entry.text, self._answer_limit), KEPT))
            case StepEntry():
                return self._step(entry.step)
            case Remark():
                words = error_words(entry.text) if entry.level == "error" else lines(entry.text)
                style = f"border-left:3px solid {_LEVELS[entry.level]};margin:8px 0;padding:4px 0 4px 10px"
                return element("div", words, style=style)

    def _step(self, step: Step) -> Markup:
        time = seconds_text(step.seconds) if step.seconds is not None else ""
        words = " · ".join(word for word in (came(step), time) if word)
        line = joined(inert(f"{mark(step)} "), what(step), element("span", inert(f"  {words}"), style=_QUIET))
        inside = detail(step, KEPT, self._detail_limit or 0)
        if not inside:
            return element("div", line, style="margin:2px 0")
        return element("details", element("summary", line), element("div", inside, style=_BOX), style="margin:2px 0")


def tally(steps: Sequence[Step]) -> str:
    """``listed variables, inspected 2, ran code 3 times, 1 denied``."""
    done = Counter(_doing(step) for step in steps if step.outcome in ("ok", "error", "running"))
    ends = Counter(step.outcome for step in steps)
    words = [_times(verb, count) for verb, count in done.items()]
    named = (("error", "failed"), ("denied", "denied"), ("interrupted", "interrupted"))
    return ", ".join(words + [f"{ends[outcome]} {word}" for outcome, word in named if ends[outcome]])


def _doing(step: Step) -> str:
    verb = step.headline.verb
    return f"{verb[:1].lower()}{verb[1:]}"


def _times(verb: str, count: int) -> str:
    """A verb that names its object is counted in times, another in objects."""
    if " " not in verb:
        return f"{verb} {count}"
    return verb if count == 1 else f"{verb} {count} times"


def calls(entries: Sequence[Entry]) -> list[Step]:
    """The steps that were calls, and not thoughts."""
    steps = [entry.step for entry in entries if isinstance(entry, StepEntry)]
    return [step for step in steps if step.name != THOUGHT]


def _foot(foot: Foot) -> Markup:
    dot = element("span", Markup("●"), style=f"color:{_STATES.get(foot.state, '#767676')}")
    rest = inert(" · ".join(["", *facts(foot), clock(foot)]))
    return element("div", dot, Markup(" "), element("b", inert(foot.words)), rest, style=_FOOT)


def _plain(entries: Sequence[Entry], foot: Foot, answer: str) -> str:
    errors = [entry.text for entry in entries if isinstance(entry, Remark) and entry.level != "info"]
    steps = len(calls(entries))
    line = foot_line(foot, *([plural(steps, "step")] if steps else []))
    pieces = [readable(shorten(answer.strip(), PLAIN_LIMIT)), *map(output_text, errors), line]
    return "\n\n".join(piece for piece in pieces if piece)
