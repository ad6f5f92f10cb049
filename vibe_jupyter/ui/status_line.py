"""The last line of a run (how it stands, who answers, what it took), and notices in it."""

import math
import re
from dataclasses import dataclass, field
from typing import Final, Literal

from vibe_jupyter.protocol import FinishReason, Usage
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

_WAIT_SHOWN: Final = 1.0
"""Seconds of waiting for the user from which on they are shown."""
_SERVER: Final = 2
"""The place of the server among the facts."""
USUAL_AGENT = "default"
"""The agent whose name goes without saying."""
NOT_OVER = "Not finished"
"""The state of a run in a document that was saved, or lost its kernel, in the middle of it."""
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
    """What the last line says."""

    state: State = "working"
    words: str = "Working"
    model: str = ""
    provider: str = ""
    """Host, and port where it is not the usual one, of the model server."""
    schema_only: bool = False
    """Whether no value of the user's data is sent."""
    agent: str = ""
    """Its name."""
    turn: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    context: float | None = None
    """Share of the model's window that the latest request took; None where the window is not known."""
    seconds: float = 0.0
    """Of work, without the time in which the user was waited for."""
    waited: float = 0.0
    changed: tuple[ChangedName, ...] = ()
    """What the run changed; known when it is over."""

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.state not in _GOING_ON


def end_words(reason: FinishReason) -> tuple[State, str]:
    """The state a run ends in."""
    return _ENDS[reason]


def run_facts(foot: StatusLine, *, with_server: bool = False) -> list[str]:
    """Agent where it is not the usual one, model, server, privacy, turns, tokens, context, price: each where known.

    Args:
        foot: what is known.
        with_server: also where there is a tooltip for it (`server_tip`).
    """
    return list(filter(None, (*_facts_but_context(foot, with_server=with_server), context_text(foot))))


def facts_without_server(foot: StatusLine) -> tuple[list[str], list[str]]:
    """`run_facts` without the server, and with it."""
    facts = (*_facts_but_context(foot, with_server=True), context_text(foot))
    return list(filter(None, (*facts[:_SERVER], *facts[_SERVER + 1 :]))), list(filter(None, facts))


def _facts_but_context(foot: StatusLine, *, with_server: bool = False) -> tuple[str, ...]:
    """The same but for the last; empty where one is not known."""
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


def server_tip(foot: StatusLine) -> str | None:
    """The tooltip of the line: the server to which requests are sent."""
    return f"Model server: {one_line(foot.provider)}" if foot.provider else None


def foot_html(foot: StatusLine, *, can_stop: bool = True) -> Markup:
    """The line in the live view; the page counts the seconds on while it goes on, and it mostly can be stopped."""
    facts = [html_element("span", inert_text(fact)) for fact in _facts_but_context(foot) if fact]
    # The page counts from a figure that it has not seen before; it counts nothing while the user is waited for.
    counted = None if foot.state == "waiting" else str(round(foot.seconds, 3))
    return html_element(
        "div",
        html_element("span", _DOT, inert_text(foot.words), class_="vibe-state"),
        html_element("span", inert_text(clock_text(foot)), class_="vibe-clock", data_vibe_clock=counted),
        *facts,
        _SPACER,
        _context_html(foot),
        _STOP if can_stop and not foot.is_over else NOTHING,
        class_="vibe-foot",
        title=server_tip(foot),
        data_state=foot.state,
    )


def context_text(foot: StatusLine) -> str:
    """How much of the model's window the latest request took; empty where the window is not known."""
    return f"{foot.context:.0%} context" if foot.context is not None else ""


def _context_html(foot: StatusLine) -> Markup:
    """The same with a small bar, which need not be read out beside the figure."""
    if foot.context is None:
        return NOTHING
    bar = html_element("progress", max="1", value=f"{min(foot.context, 1.0):.2f}", aria_hidden="true")
    return html_element("span", bar, inert_text(context_text(foot)), class_="vibe-context")


def foot_line(foot: StatusLine) -> str:
    """The same as one line of plain text."""
    return readable_text(" · ".join([foot.words, clock_text(foot), *run_facts(foot, with_server=True)]))


def clock_text(foot: StatusLine) -> str:
    """The seconds of work, whole ones while they are counted; behind them, how long the user was waited for."""
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
    """A notice in the live view, with the seconds it has left to wait, which the page counts down."""
    left = html_element(
        "span", inert_text(left_words(wait)), class_="vibe-countdown", data_vibe_countdown=f"{wait:.1f}"
    )
    said = join_markup(plain_lines(text), Markup(" "), left) if wait > 0 else plain_lines(text)
    return html_element("div", said, class_="vibe-notice", data_level=level)


def left_words(seconds: float) -> str:
    """How long a wait still is."""
    return f"{math.ceil(seconds)} s left"


def error_html(text: str) -> Markup:
    """An error in the live view: what happened in bold, then the rest."""
    return html_element("div", error_words(text), class_="vibe-error", role="alert")


def error_words(text: str) -> Markup:
    """The first sentence in bold."""
    end = _SENTENCE_END.search(text)
    cut = end.end() if end else len(text)
    rest = text[cut:].strip()
    first = html_element("b", plain_lines(text[:cut].strip()))
    return join_markup(first, Markup(" "), plain_lines(rest)) if rest else first


def plain_lines(text: str) -> Markup:
    """Plain text; ``code`` between backticks, line ends kept."""
    pieces = output_text(text).split("`")
    if len(pieces) % 2 == 0:
        pieces = [output_text(text)]
    marked = [
        html_element("code", escape_text(piece)) if at % 2 else inert_text(piece) for at, piece in enumerate(pieces)
    ]
    return Markup("".join(marked).replace("\n", "<br>"))
