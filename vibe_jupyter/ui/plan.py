"""The agent's plan: one part of the run, shown where it was first made and updated in place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue, ValidationError

from vibe_jupyter.protocol import Plan, PlanItem, PlanStatus
from vibe_jupyter.ui.icons import icon_html
from vibe_jupyter.ui.markup import NOTHING, Markup, html_element, inert_text, join_markup
from vibe_jupyter.ui.text import one_line

PLANNER: Final = "todo"  # the tool that writes the plan; it has no step of its own unless it fails
_SIGNS: Final[Mapping[PlanStatus, str]] = {"done": "✓", "in progress": "◉", "to do": "○", "cancelled": "⊘"}
_ICONS: Final[Mapping[PlanStatus, str]] = {
    "done": "done",
    "in progress": "now",
    "to do": "to-do",
    "cancelled": "denied",
}
# States spelled out in the saved output, where the sign alone may be unclear.
_SAID: Final[frozenset[PlanStatus]] = frozenset({"in progress", "cancelled"})
_BOX: Final = "margin:6px 0 8px;padding:7px 12px 8px 8px;border:1px solid #8c8c8c;border-radius:5px"
_ROW: Final = "margin:0;padding:2px 0"
_QUIET: Final = "opacity:0.72"


@dataclass
class PlanEntry:
    """The run's current plan."""

    plan: Plan


def read_plan(content: JsonValue) -> Plan | None:
    """Parse the plan that a tool displays. Returns None if it isn't valid."""
    try:
        return Plan.model_validate(content)
    except ValidationError:
        return None


def plan_html(plan: Plan) -> Markup:
    """Render the plan for the live view. Each item's state is also text for screen readers."""
    count = html_element("span", Markup(_count_words(plan)))
    head = html_element("header", icon_html("plan"), html_element("b", Markup("Plan")), count)
    return html_element(
        "section", head, html_element("ul", *map(_item_html, plan.items)), class_="vibe-plan", aria_label="Plan"
    )


def kept_plan(plan: Plan) -> Markup:
    """Render the plan for the saved output."""
    if not plan.items:
        return NOTHING
    count = html_element("span", Markup(_count_words(plan)), style=_QUIET)
    head = html_element("div", html_element("b", Markup("Plan")), Markup(" "), count, style=_ROW)
    return html_element("div", head, *map(_kept_item, plan.items), style=_BOX)


def _item_html(item: PlanItem) -> Markup:
    return html_element(
        "li",
        icon_html(_ICONS[item.status]),
        html_element("span", Markup(f"{item.status}: "), class_="vibe-unseen"),
        html_element("span", inert_text(one_line(item.words))),
        data_status=item.status,
        aria_current="step" if item.status == "in progress" else None,
    )


def _kept_item(item: PlanItem) -> Markup:
    words = inert_text(one_line(item.words))
    shown = html_element("b", words) if item.status == "in progress" else html_element("span", words, style=_QUIET)
    said = html_element("span", Markup(f" · {item.status}"), style=_QUIET) if item.status in _SAID else NOTHING
    return html_element("div", join_markup(Markup(_SIGNS[item.status]), Markup(" "), shown, said), style=_ROW)


def _count_words(plan: Plan) -> str:
    done = sum(item.status == "done" for item in plan.items)
    return f"{done} of {len(plan.items)} done"
