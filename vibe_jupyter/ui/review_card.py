"""Review card: several changes of one answer, each with a check box and a folded diff, decided together."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from vibe_jupyter.files.sizes import bytes_text
from vibe_jupyter.protocol import ApprovalRequested, Preview
from vibe_jupyter.tools.confusables import escape_lookalikes, without_lookalikes
from vibe_jupyter.ui.cards import (
    EFFECT_LENGTH,
    HIDDEN_WARNING,
    LOOKALIKE_WARNING,
    card_hints,
    card_title,
    counts_html,
    preview_html,
    sentence_text,
    written_cells,
)
from vibe_jupyter.ui.cell_references import FindCell, no_cell
from vibe_jupyter.ui.code import LIVE
from vibe_jupyter.ui.diff import read_diff
from vibe_jupyter.ui.icons import icon_html, tool_icon
from vibe_jupyter.ui.markup import NOTHING, Markup, escape_text, html_element, inert_text
from vibe_jupyter.ui.text import one_line, plural_text

_WARNINGS = (HIDDEN_WARNING, LOOKALIKE_WARNING)
_BETWEEN = " · "  # separator of a card's reasons


@dataclass
class OpenReview:
    """Changes that await a common decision."""

    part_id: str
    requests: list[ApprovalRequested] = field(default_factory=list[ApprovalRequested])


def review_html(requests: Sequence[ApprovalRequested], find_cell: FindCell = no_cell) -> Markup:
    """Render the card for requests of one review. Live view."""
    review = requests[0].review
    assert review is not None
    title = f"Review {len(requests)} changes"
    return html_element(
        "section",
        html_element(
            "header",
            _check_box("Select all changes", "vibe-select-all"),
            html_element("b", inert_text(title)),
            html_element("span", inert_text(f"{_touched_words(requests)} · nothing applied yet"), class_="vibe-note"),
            html_element("span", icon_html("warning"), inert_text(_reasons_text(requests)), class_="vibe-why"),
        ),
        *(_row(request, find_cell) for request in requests),
        html_element(
            "footer",
            _button("approve-selected", "Accept all", "⏎", primary=True),
            _button("approve-all", "Accept all", "⇧⏎", hidden=True),
            html_element("span", class_="vibe-spacer"),
            _button("reject", "Reject all…", "Esc"),
        ),
        html_element(
            "div",
            Markup(
                '<input type="text" class="vibe-deny-message" aria-label="Tell the agent why (optional)"'
                ' placeholder="Tell the agent why (optional)">'
            ),
            _button("reject-now", "Reject all"),
            class_="vibe-deny",
            hidden=True,
        ),
        class_="vibe-card vibe-review",
        role="group",
        tabindex="0",
        aria_label=title,
        data_vibe_review=review.id,
    )


def _row(request: ApprovalRequested, find_cell: FindCell) -> Markup:
    title = card_title(request)
    warnings = [hint for hint in card_hints(request) if hint in _WARNINGS]
    return html_element(
        "details",
        html_element(
            "summary",
            _check_box(f"Accept: {title}", "vibe-select"),
            icon_html(tool_icon(request.call.name)),
            html_element("b", inert_text(title)),
            html_element("span", _summary(request), class_="vibe-note"),
            counts_html(request.preview),
            html_element("span", inert_text(_result_text(request)), class_="vibe-result"),
            *(html_element("span", inert_text(hint), class_="vibe-why") for hint in warnings),
        ),
        preview_html(without_lookalikes(request.preview), LIVE),
        class_="vibe-change",
        data_vibe_change=request.approval_id,
        data_vibe_cells=written_cells(request, find_cell),
    )


def _reasons_text(requests: Sequence[ApprovalRequested]) -> str:
    """Return the distinct reasons for asking."""
    reasons = (reason for request in requests for reason in request.reason.split(_BETWEEN))
    said = sentence_text(_BETWEEN.join(dict.fromkeys(filter(None, reasons))))
    return one_line(escape_lookalikes(said), EFFECT_LENGTH)


def _summary(request: ApprovalRequested) -> Markup:
    """Return the tool's note, else the first added or removed line."""
    if note := one_line(request.headline.note):
        return inert_text(escape_lookalikes(note))
    line = _first_line(without_lookalikes(request.preview))
    return html_element("code", escape_text(one_line(line))) if line else NOTHING


def _first_line(preview: Preview) -> str:
    if preview.kind != "diff":
        return next((line for line in preview.text.splitlines() if line.strip()), "")
    lines = [line for line in read_diff(preview.text) if line.text.strip()]
    return next((line.text for kind in ("add", "del") for line in lines if line.kind == kind), "")


def _result_text(request: ApprovalRequested) -> str:
    """Return the size of a new file. Cells have none, since their result is unknown until they run."""
    writes_file = any(one.kind == "path" and one.access == "write" for one in request.resources)
    is_whole = writes_file and request.preview.kind == "code"
    return bytes_text(len(request.preview.text.encode("utf-8", "surrogatepass"))) if is_whole else ""


def _touched_words(requests: Sequence[ApprovalRequested]) -> str:
    """Return a count such as ``in 3 cells and 1 file``."""
    written = [{one.kind for one in request.resources if one.access == "write"} for request in requests]
    files = sum("path" in kinds for kinds in written)
    counts = ((len(requests) - files, "cell"), (files, "file"))
    return f"in {' and '.join(plural_text(count, what) for count, what in counts if count)}"


def _check_box(label: str, look: str) -> Markup:
    return Markup(f'<input type="checkbox" checked class="{look}" aria-label="{escape_text(label)}">')


def _button(action: str, label: str, key: str = "", *, primary: bool = False, hidden: bool = False) -> Markup:
    return html_element(
        "button",
        escape_text(label),
        html_element("kbd", escape_text(key), aria_hidden="true") if key else NOTHING,
        type="button",
        class_="vibe-button vibe-primary" if primary else "vibe-button",
        hidden=hidden,
        data_vibe_action=action,
    )
