"""Calls of one tool that only look, one right after the other, as one quiet line."""

from collections.abc import Sequence

from vibe_jupyter.protocol import Preview
from vibe_jupyter.ui.markup import NOTHING, Markup, element, escape, inert
from vibe_jupyter.ui.step import Step, mark, step_html
from vibe_jupyter.ui.text import one_line, seconds_text

GROUP_LIMIT = 20
"""Calls in one line; what comes after begins another, since all of a line is sent again when one of its calls ends."""
DETAIL_LIMIT = 2_000
"""Characters of each text inside a call of a group."""
TARGETS_LIMIT = 4
"""Things that are named on the line."""


def looks(preview: Preview | None) -> bool:
    """Whether a call only looks: it shows neither code nor a command nor a change."""
    return preview is None or preview.kind == "text"


def times(verb: str, count: int) -> str:
    """A verb that names its object is counted in times, another in objects."""
    if " " not in verb:
        return f"{verb} {count}"
    return verb if count == 1 else f"{verb} {count} times"


def group_html(steps: Sequence[Step]) -> Markup:
    """The line in the live view; the calls stand in it."""
    outcome = next((step.outcome for step in steps if step.outcome == "running"), _worst(steps))
    last = next((step for step in steps if step.outcome == "running"), steps[-1])
    verb = last.headline.doing if last.outcome == "running" else last.headline.verb
    seconds = sum(step.seconds or 0.0 for step in steps)
    line = (
        element("span", escape(mark(last)), class_="vibe-mark", aria_hidden="true"),
        element("span", element("b", inert(one_line(times(verb, len(steps))))), class_="vibe-what"),
        element("span", inert(_came(steps)), class_="vibe-came"),
        element("span", escape(seconds_text(seconds)) if outcome != "running" else NOTHING, class_="vibe-time"),
    )
    inside = element("div", *(step_html(step, DETAIL_LIMIT) for step in steps), class_="vibe-detail")
    return element("details", element("summary", *line), inside, class_="vibe-step vibe-group", data_outcome=outcome)


def _worst(steps: Sequence[Step]) -> str:
    return next((step.outcome for step in steps if step.outcome != "ok"), "ok")


def _came(steps: Sequence[Step]) -> str:
    """What was looked at, and how often in vain."""
    targets = list(dict.fromkeys(step.headline.target for step in steps if step.headline.target))
    shown = [*targets[:TARGETS_LIMIT], *(["…"] if len(targets) > TARGETS_LIMIT else [])]
    failed = sum(step.outcome not in ("ok", "running") for step in steps)
    words = [", ".join(shown), f"{failed} failed" if failed else ""]
    return one_line(" · ".join(word for word in words if word))
