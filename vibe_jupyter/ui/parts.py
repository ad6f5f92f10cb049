"""What a run looks like: a list of parts of safe HTML, and the patches that carry a change of it.

The transcript makes parts; every user interface only shows them. HTML in a part is made by `vibe_jupyter.ui.html` and
its like and nowhere else, so that a view may insert it as it is.
"""

from dataclasses import dataclass
from typing import Literal, Required, TypedDict

PartKind = Literal["prose", "tail", "step", "card", "notice", "error", "foot"]


@dataclass(frozen=True, slots=True)
class ViewPart:
    """One block of the view. Order in the transcript is order on the page; `foot` is always the last."""

    id: str
    """Unique in its run and stable: ``t3`` for a piece of prose, ``s5`` for a step, ``foot``."""
    kind: PartKind
    html: str
    """Safe HTML for the live view (classes of ours, no inline style)."""
    text: str = ""
    """For kind tail only: the growing end of an answer, plain text; `html` is empty then."""


class Patch(TypedDict, total=False):
    """One change of the view, as sent to the page.

    ``{"id", "kind", "html", "before"}`` puts or replaces a part, ``before`` naming the part it goes in front of
    (absent: in front of the foot). ``{"id", "append"}`` adds plain text to a tail. ``{"id", "remove": true}`` removes.
    """

    id: Required[str]
    kind: PartKind
    html: str
    append: str
    before: str
    remove: bool
