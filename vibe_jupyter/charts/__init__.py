"""Charts as text, for a model that may not see them. Start reading at `vibe_jupyter.charts.outputs` and `chart_text`.

Every library's charts become the same few values: panels with axes and series, whose data are plain lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from vibe_jupyter.charts.columns import NOTHING, DataColumn, column_of, taken, value_text

__all__ = ["CHART_LIMIT", "NOTHING", "Axis", "Chart", "DataColumn", "Panel", "Series", "series_by_category"]

CHART_LIMIT: Final = 400
"""Characters of the text of one chart."""


@dataclass(frozen=True)
class Axis:
    """One axis, or another channel that shows data, such as color."""

    name: str
    """``x``, ``y``, ``z``, ``color``, ``size``."""
    label: str = ""
    column: DataColumn = NOTHING
    """All that is drawn along it."""
    note: str = ""
    """Such as ``log``."""


@dataclass(frozen=True)
class Series:
    """What is drawn in one go: a line, the points of one color, the bars of one group."""

    kind: str
    name: str = ""
    x: DataColumn = NOTHING
    y: DataColumn = NOTHING
    note: str = ""
    size: int | None = None
    """Data points, where they are not what is drawn, as in a histogram; 0 where their number is not known."""

    @property
    def count(self) -> int:
        """Data points."""
        return max(self.x.count, self.y.count) if self.size is None else self.size

    @property
    def is_estimate(self) -> bool:
        """Whether the number of its points was not counted."""
        return self.size is None and (self.x.is_estimate or self.y.is_estimate)


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    axes: Sequence[Axis] = ()
    series: Sequence[Series] = ()
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """All panels of one picture."""

    library: str
    panels: Sequence[Panel] = field(default_factory=tuple[Panel, ...])
    title: str = ""


def series_by_category(kind: str, name: str, x: DataColumn, y: DataColumn) -> list[Series]:
    """What is drawn in one go with a box for each category along its axis, as a series for each."""
    found: dict[str, list[int]] = {}
    for place, one in enumerate(x.values):
        found.setdefault(value_text(one), []).append(place)
    return [
        Series(kind, " ".join(filter(None, (name, category))), column_of([category]), taken(y, places))
        for category, places in found.items()
    ]
