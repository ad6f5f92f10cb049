"""The last line of a run: how it stands, who answers, what it took."""

from dataclasses import dataclass, field
from typing import Literal

from vibe_jupyter.protocol import FinishReason, Usage
from vibe_jupyter.ui.markup import NOTHING, Markup, element, inert
from vibe_jupyter.ui.text import count_text, one_line, plural, readable, seconds_text

State = Literal["working", "waiting", "done", "stopped", "failed"]

_ENDS: dict[FinishReason, tuple[State, str]] = {
    "stop": ("done", "Done"),
    "length": ("stopped", "Cut off"),
    "turn_limit": ("stopped", "Stopped at the turn limit"),
    "price_limit": ("stopped", "Stopped at the price limit"),
    "interrupted": ("stopped", "Stopped"),
    "refused": ("failed", "Refused"),
    "error": ("failed", "Failed"),
}


@dataclass(frozen=True)
class Foot:
    """What the last line says."""

    state: State = "working"
    words: str = "Working"
    model: str = ""
    provider: str = ""
    turn: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    seconds: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self.state not in ("working", "waiting")


def end_words(reason: FinishReason) -> tuple[State, str]:
    """The state a run ends in."""
    return _ENDS[reason]


def facts(foot: Foot) -> list[str]:
    """Model, server, turns, tokens and price, each only where known."""
    turns = plural(foot.turn, "turn") if foot.is_over else f"turn {foot.turn}"
    return [
        fact
        for fact in (
            one_line(foot.model),
            one_line(foot.provider),
            turns if foot.turn else "",
            _tokens(foot),
            f"${foot.cost:.3f}" if foot.cost is not None else "",
        )
        if fact
    ]


def foot_html(foot: Foot) -> Markup:
    """The line in the live view; the page counts the seconds on while the run goes on."""
    dot = element("i", class_="vibe-dot")
    return element(
        "div",
        element("span", dot, inert(foot.words), class_="vibe-state"),
        *(element("span", inert(fact)) for fact in facts(foot)),
        element("span", inert(clock(foot)), class_="vibe-clock", data_vibe_clock=f"{foot.seconds:.1f}"),
        element("span", class_="vibe-spacer"),
        NOTHING if foot.is_over else _STOP,
        class_="vibe-foot",
        data_state=foot.state,
    )


def foot_line(foot: Foot) -> str:
    """The same as one line of plain text."""
    return readable(" · ".join([foot.words, *facts(foot), clock(foot)]))


def clock(foot: Foot) -> str:
    """The seconds: whole ones while they are counted."""
    return seconds_text(foot.seconds) if foot.is_over else seconds_text(float(int(foot.seconds))).replace(".0 s", " s")


def _tokens(foot: Foot) -> str:
    usage = foot.usage
    total = usage.prompt_tokens + usage.completion_tokens
    if not foot.is_over:
        return f"{count_text(total)} tokens" if total else ""
    counts = ((usage.prompt_tokens, "tokens in"), (usage.cached_tokens, "cached"), (usage.completion_tokens, "out"))
    return ", ".join(f"{count_text(count)} {word}" for count, word in counts if count)


_STOP = element("button", Markup("Stop"), type="button", class_="vibe-button vibe-quiet", data_vibe_action="stop")
