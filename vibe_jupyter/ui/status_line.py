"""Status line of a run (state, model, cost) and notices."""

import math
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from vibe_jupyter.protocol import AnswerAwaited, AssistantMessage, FinishReason, Usage
from vibe_jupyter.ui.changed_line import ChangedName
from vibe_jupyter.ui.icons import icon_html
from vibe_jupyter.ui.markup import NOTHING, Markup, escape_text, html_element, inert_text, join_markup
from vibe_jupyter.ui.text import count_text, one_line, output_text, plural_text, readable_text, seconds_text

State = Literal["working", "waiting", "done", "stopped", "failed"]

_GOING_ON: Final = frozenset({"working", "waiting"})
_ENDS: dict[FinishReason, tuple[State, str]] = {
    "stop": ("done", "Done"),
    "length": ("stopped", "Truncated (token limit)"),
    "tool_calls": ("done", "Calls left to the client"),
    "turn_limit": ("stopped", "Stopped at the turn limit"),
    "price_limit": ("stopped", "Stopped at the price limit"),
    "token_limit": ("stopped", "Stopped at the token limit"),
    "time_limit": ("stopped", "Stopped at the time limit"),
    "loop": ("stopped", "Stopped: the model repeated itself"),
    "interrupted": ("stopped", "Stopped"),
    "refused": ("failed", "Refused"),
    "error": ("failed", "Failed"),
}

_STOP = html_element(
    "button", icon_html("stop"), Markup("Stop"), type="button", class_="vibe-button vibe-stop", data_vibe_action="stop"
)

_DOT = html_element("i", class_="vibe-dot")
_SPACER = html_element("span", class_="vibe-spacer")

_WAIT_SHOWN: Final = 1.0  # seconds; shorter waits for the user aren't mentioned
_SILENT: Final = "silent for "
_SERVER: Final = 2  # index of the server among the facts
USUAL_AGENT = "default"  # the agent that isn't mentioned
NOT_OVER = "Not finished"  # state of a run whose document was saved, or lost its kernel, before the end
NOT_OVER_NOTE = (
    "The notebook was saved, or the kernel ended, while this run went on: what it had done by then is above. "
    "To go on in a new kernel, run the cells that its variables come from, then ask in a new prompt."
)
CUT_SHORT = "The answer ended early. You can still read it here; it is not sent to the model again."
CUT_BY_LENGTH = (
    "The answer ends here because it reached the model's output limit. Ask it to go on, or raise max_tokens."
)
REFUSED = (
    "The same call was denied repeatedly, so the run ended. Say in another prompt what the model should do "
    "instead, or allow the call."
)

_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")


@dataclass(frozen=True)
class StatusLine:
    """Contents of the status line."""

    state: State = "working"
    words: str = "Working"
    model: str = ""
    provider: str = ""  # host of the model server, with the port if it isn't the default
    schema_only: bool = False  # True if no values of the user's data are sent
    agent: str = ""  # name
    turn: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    # Share of the context window used by the latest request; None if the window is unknown.
    context: float | None = None
    seconds: float = 0.0  # of work, excluding waits for the user
    waited: float = 0.0
    silent: float | None = None  # seconds since the model server last sent something, while the run waits for it
    silence_limit: float | None = None  # seconds of silence before giving up; None for no limit
    marks: tuple[str, ...] = ()  # one label per call that arrived in an unusual form
    changed: tuple[ChangedName, ...] = ()  # changes of the run, known once it has ended

    @property
    def is_over(self) -> bool:
        """True if the run has ended."""
        return self.state not in _GOING_ON


def end_words(reason: FinishReason) -> tuple[State, str]:
    """Return the final state and its label."""
    return _ENDS[reason]


def run_facts(foot: StatusLine, *, with_server: bool = False) -> list[str]:
    """Return the known facts: agent (if not the default), model, server, privacy, turns, tokens, price, context.

    Args:
        foot: The status line.
        with_server: Whether to include the server, which the live view only shows in a tooltip (`foot_tip`).
    """
    return list(filter(None, (*_facts_but_context(foot, with_server=with_server), context_text(foot))))


def facts_without_server(foot: StatusLine) -> tuple[list[str], list[str]]:
    """Return `run_facts` without and with the server."""
    facts = (*_facts_but_context(foot, with_server=True), context_text(foot))
    return list(filter(None, (*facts[:_SERVER], *facts[_SERVER + 1 :]))), list(filter(None, facts))


def _facts_but_context(foot: StatusLine, *, with_server: bool = False) -> tuple[str, ...]:
    """Return the facts except the context; unknown ones are ""."""
    is_over = foot.state not in _GOING_ON
    turns = plural_text(foot.turn, "turn") if is_over else f"turn {foot.turn}"
    return (
        f"agent {one_line(foot.agent)}" if foot.agent not in ("", USUAL_AGENT) else "",
        one_line(foot.model),
        one_line(foot.provider) if with_server else "",
        "no values sent" if foot.schema_only else "",
        turns if foot.turn else "",
        _tokens_text(foot.usage, is_over=is_over),
        f"${foot.cost:.3f}" if foot.cost is not None else "",
    )


def after_answer(foot: StatusLine, answer: AssistantMessage) -> StatusLine:
    """Return the status line after an answer has arrived."""
    marks = (call.mark.partition(":")[0] for call in answer.calls if call.mark)
    return replace(foot, usage=foot.usage + (answer.usage or Usage()), marks=(*foot.marks, *marks))


def foot_tip(foot: StatusLine) -> str | None:
    """Return the tooltip: the server that receives requests, and calls in unusual form."""
    server = f"Model server: {one_line(foot.provider)}" if foot.provider else ""
    calls = (f"{plural_text(count, 'call')} {mark}" for mark, count in Counter(foot.marks).items())
    return "; ".join(filter(None, (server, *calls))) or None


def foot_html(foot: StatusLine, *, can_stop: bool = True) -> Markup:
    """Render the status line for the live view. The page keeps the clock running during the run."""
    facts = [html_element("span", inert_text(fact)) for fact in _facts_but_context(foot) if fact]
    # The page restarts its clock at each new value; without a value, while waiting for the user, it stops.
    counted = None if foot.state == "waiting" else str(round(foot.seconds, 3))
    return html_element(
        "div",
        html_element("span", _DOT, inert_text(foot.words), class_="vibe-state"),
        html_element("span", inert_text(clock_text(foot)), class_="vibe-clock", data_vibe_clock=counted),
        _silence_html(foot),
        *facts,
        _SPACER,
        _context_html(foot),
        _STOP if can_stop and not foot.is_over else NOTHING,
        class_="vibe-foot",
        title=foot_tip(foot),
        data_state=foot.state,
    )


def context_text(foot: StatusLine) -> str:
    """Return the share of the context window used by the latest request, or "" if the window is unknown."""
    return f"{foot.context:.0%} context" if foot.context is not None else ""


def _context_html(foot: StatusLine) -> Markup:
    """Render `context_text` with a small bar, which screen readers skip."""
    if foot.context is None:
        return NOTHING
    bar = html_element("progress", max="1", value=f"{min(foot.context, 1.0):.2f}", aria_hidden="true")
    return html_element("span", bar, inert_text(context_text(foot)), class_="vibe-context")


def foot_line(foot: StatusLine) -> str:
    """Return the status line as plain text."""
    facts = run_facts(foot, with_server=True)
    if foot.silent is not None:
        limit = _limit_text(foot.silence_limit)
        facts.insert(0, f"{_SILENT}{seconds_text(foot.silent)}{f', {limit}' if limit else ''}")
    return readable_text(" · ".join([foot.words, clock_text(foot), *facts]))


def awaiting(foot: StatusLine, event: AnswerAwaited) -> StatusLine:
    """Return the status line while waiting for a silent model server."""
    words = awaited_words(has_begun=event.has_begun)
    return replace(foot, words=words, silent=event.seconds, silence_limit=event.limit)


def awaited_line(event: AnswerAwaited) -> str:
    """Return one line saying what the run waits for."""
    words, limit = awaited_words(has_begun=event.has_begun), _limit_text(event.limit)
    return f"{words} ({limit} of silence)" if limit else words


def awaited_words(*, has_begun: bool) -> str:
    """Describe what the run waits for while the model server is silent."""
    return "Waiting for more of the answer" if has_begun else "Waiting for the model's first word"


def _limit_text(limit: float | None) -> str:
    return "" if limit is None else f"gives up after {limit:g} s"


def _silence_html(foot: StatusLine) -> Markup:
    """Render the seconds of silence. The page counts on, unless the reader prefers reduced motion."""
    if foot.silent is None:
        return NOTHING
    counted = html_element(
        "span",
        inert_text(seconds_text(float(int(foot.silent))).replace(".0 s", " s")),
        data_vibe_running=str(round(foot.silent, 3)),
    )
    limit = _limit_text(foot.silence_limit)
    return html_element(
        "span", Markup(_SILENT), counted, inert_text(f", {limit}" if limit else ""), class_="vibe-silence"
    )


def clock_text(foot: StatusLine) -> str:
    """Return the working time, in whole seconds during the run; afterwards also the time spent waiting for the user."""
    if foot.state in _GOING_ON:
        return seconds_text(float(int(foot.seconds))).replace(".0 s", " s")
    waited = f" · waited {seconds_text(foot.waited)} for you" if foot.waited >= _WAIT_SHOWN else ""
    return f"{seconds_text(foot.seconds)}{waited}"


def _tokens_text(usage: Usage, *, is_over: bool) -> str:
    total = usage.prompt_tokens + usage.completion_tokens
    if not is_over:
        return f"{count_text(total)} tokens" if total else ""
    counts = ((usage.prompt_tokens, "tokens in"), (usage.cached_tokens, "cached"), (usage.completion_tokens, "out"))
    return ", ".join([f"{count_text(count)} {word}" for count, word in counts if count])


def notice_html(level: str, text: str, wait: float = 0.0) -> Markup:
    """Render a notice for the live view, with a countdown if `wait` is positive."""
    left = html_element(
        "span", inert_text(left_words(wait)), class_="vibe-countdown", data_vibe_countdown=f"{wait:.1f}"
    )
    said = join_markup(plain_lines(text), Markup(" "), left) if wait > 0 else plain_lines(text)
    return html_element("div", said, class_="vibe-notice", data_level=level)


def left_words(seconds: float) -> str:
    """Return the remaining time of a wait."""
    return f"{math.ceil(seconds)} s left"


def error_html(text: str) -> Markup:
    """Render an error for the live view."""
    return html_element("div", error_words(text), class_="vibe-error", role="alert")


def error_words(text: str) -> Markup:
    """Render an error text with its first sentence in bold."""
    end = _SENTENCE_END.search(text)
    cut = end.end() if end else len(text)
    rest = text[cut:].strip()
    first = html_element("b", plain_lines(text[:cut].strip()))
    return join_markup(first, Markup(" "), plain_lines(rest)) if rest else first


def plain_lines(text: str) -> Markup:
    """Render plain text with its newlines, and code for text in backticks."""
    pieces = output_text(text).split("`")
    if len(pieces) % 2 == 0:
        pieces = [output_text(text)]
    marked = [
        html_element("code", escape_text(piece)) if at % 2 else inert_text(piece) for at, piece in enumerate(pieces)
    ]
    return Markup("".join(marked).replace("\n", "<br>"))
