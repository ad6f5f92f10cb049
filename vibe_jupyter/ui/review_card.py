"""Several changes of one answer on one card: a check box and a folded diff each, one row of buttons for all."""

from collections.abc import Sequence

from vibe_jupyter.protocol import ApprovalRequested
from vibe_jupyter.tools.confusables import escape_lookalikes, without_lookalikes
from vibe_jupyter.ui.cards import HIDDEN_WARNING, LOOKALIKE_WARNING, card_hints, card_title, preview_html
from vibe_jupyter.ui.code import LIVE
from vibe_jupyter.ui.diff import count_changes
from vibe_jupyter.ui.icons import icon_html, tool_icon
from vibe_jupyter.ui.markup import NOTHING, Markup, escape_text, html_element, inert_text
from vibe_jupyter.ui.text import one_line, plural_text

_WARNINGS = (HIDDEN_WARNING, LOOKALIKE_WARNING)


def review_html(requests: Sequence[ApprovalRequested]) -> Markup:
    """The card in the live view, of requests that name the same review."""
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
        ),
        *map(_row, requests),
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


def _row(request: ApprovalRequested) -> Markup:
    title = card_title(request)
    notes = filter(None, (one_line(request.headline.note), one_line(request.reason)))
    warnings = [hint for hint in card_hints(request) if hint in _WARNINGS]
    return html_element(
        "details",
        html_element(
            "summary",
            _check_box(f"Accept: {title}", "vibe-select"),
            icon_html(tool_icon(request.call.name)),
            html_element("b", inert_text(title)),
            html_element("span", inert_text(escape_lookalikes(" · ".join(notes))), class_="vibe-note"),
            *(html_element("span", inert_text(hint), class_="vibe-why") for hint in warnings),
            html_element("span", *_size(request), class_="vibe-size"),
        ),
        preview_html(without_lookalikes(request.preview), LIVE),
        class_="vibe-change",
        data_vibe_change=request.approval_id,
    )


def _size(request: ApprovalRequested) -> tuple[Markup, ...]:
    preview = request.preview
    if preview.kind == "text":
        return ()
    added, removed = count_changes(preview.text) if preview.kind == "diff" else (len(preview.text.splitlines()), 0)
    plus = html_element("span", inert_text(f"+{added}"), class_="vibe-added")
    minus = html_element("span", inert_text(f"−{removed}"), class_="vibe-removed")
    return (plus, Markup(" "), minus) if removed else (plus,)


def _touched_words(requests: Sequence[ApprovalRequested]) -> str:
    """Such as ``in 3 cells and 1 file``."""
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
