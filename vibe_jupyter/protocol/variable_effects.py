"""Effects of one piece of code on the user's variables, as a copy of the kernel reports them: facts without sentences.

The copy may be in the hands of hostile code. Each field has a bound, and whoever reads one checks it
(`notebook/tools/effect_words.py`) before it stands in a sentence.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field, StringConstraints

LONGEST_NAME: Final = 100
"""Characters of a name that is reported; longer ones are counted."""
LONGEST_LOOK: Final = 400
"""Characters of a description of one value."""
MOST_COLUMNS: Final = 200
"""Columns of a frame that are reported."""
_LARGEST: Final = 10**15

Count = Annotated[int, Field(ge=0, le=_LARGEST)]
ReportedName = Annotated[str, StringConstraints(max_length=LONGEST_NAME)]
ReportedText = Annotated[str, StringConstraints(max_length=LONGEST_LOOK)]


class FrameShape(NamedTuple):
    """Shape of one frame, without any of its values."""

    kind: ReportedName
    """Such as ``pandas DataFrame``."""
    rows: Count
    width: Count
    """All columns, also those of which no type is known."""
    types: Annotated[Mapping[ReportedText, ReportedText], Field(max_length=MOST_COLUMNS)]
    """Types of the first columns by their labels."""

    @property
    def extent(self) -> str:
        """``pandas DataFrame 344 × 8``."""
        return f"{self.kind} {self.size}"

    @property
    def size(self) -> str:
        """``344 × 8``."""
        return f"{self.rows:,} × {self.width:,}"

    @property
    def is_whole(self) -> bool:
        """Whether all columns are known, each by a label of its own."""
        return len(self.types) == self.width


class ValueLook(NamedTuple):
    """One value: its class, and its description in one line."""

    kind: ReportedName
    """Such as ``pandas.DataFrame``."""
    line: ReportedText


class VariableEffect(NamedTuple):
    """One variable before and after the code ran."""

    name: ReportedName
    change: Literal["new", "removed", "changed", "unchanged", "set again", "not compared"]
    """``set again``: perhaps to an equal value. ``not compared``: perhaps changed."""
    before: ValueLook | None = None
    after: ValueLook | None = None
    frame_before: FrameShape | None = None
    frame_after: FrameShape | None = None


class RowCount(NamedTuple):
    """Rows of one frame that lost some, and of the frame that it was made of."""

    name: ReportedName
    source: ReportedName
    """The frame that it is made of; its own name if it was reassigned or modified."""
    before: Count
    after: Count
