"""Summary line of a run's changes: cells by their current number, and files, each with a link."""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from vibe_jupyter.protocol import Change
from vibe_jupyter.ui.cell_references import FindCell
from vibe_jupyter.ui.markup import NOTHING, Markup, html_element, inert_text
from vibe_jupyter.ui.text import one_line

_BOX = "border:1px solid #8c8c8c;border-radius:5px;margin:10px 0 0 0;padding:5px 10px"
_QUIET = "opacity:0.72"
_PIECE = "white-space:nowrap;margin:0 0 0 14px"


class ChangedName(NamedTuple):
    """A changed cell or file, as displayed."""

    label: str
    what: str  # such as ``edited`` or ``new file``
    link: str  # href, or "" for none


def changed_names(changes: Sequence[Change], find_cell: FindCell) -> tuple[ChangedName, ...]:
    """Return the changes of a run with current cell numbers."""
    return tuple(_file_name(one) if one.kind == "file" else _cell_name(one, find_cell) for one in changes)


def changed_html(names: Sequence[ChangedName]) -> Markup:
    """Render the summary for the static output, or nothing if there are no changes."""
    if not names:
        return NOTHING
    head = html_element("span", Markup("Changed"), style=_QUIET)
    return html_element("div", head, *map(_piece, names), style=_BOX)


def changed_text(names: Sequence[ChangedName]) -> str:
    """Return the summary as plain text, or "" if there are no changes."""
    return f"Changed: {', '.join(f'{one.label} {one.what}' for one in names)}" if names else ""


def _cell_name(change: Change, find_cell: FindCell) -> ChangedName:
    if change.what == "deleted":
        return ChangedName(change.was, "deleted", "")
    cell = find_cell(change.name)
    if cell is None:
        return ChangedName("a cell", change.what, "")
    label = f"[{cell.execution_count}]" if cell.execution_count is not None else f"cell {cell.number}"
    return ChangedName(label, change.what, f"#cell-id={quote(cell.id)}")


def _file_name(change: Change) -> ChangedName:
    is_outside = change.name.startswith("/") or ":" in change.name
    return ChangedName(
        one_line(change.name),
        "new file" if change.what == "new" else "edited",
        "" if is_outside else quote(change.name),
    )


def _piece(name: ChangedName) -> Markup:
    label = html_element("code", inert_text(name.label))
    shown = html_element("a", label, href=name.link) if name.link else label
    return html_element(
        "span", shown, Markup(" "), html_element("span", inert_text(name.what), style=_QUIET), style=_PIECE
    )
