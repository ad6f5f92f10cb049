"""Histograms, boxes, pies, heatmaps, areas, error bars, logarithmic axes and facets, by five libraries."""

import pytest

from tests.charts.kinds import LIBRARIES
from vibe_jupyter.charts import CHART_LIMIT
from vibe_jupyter.variables.describe import describe_value


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_text_tells_kind_axes_ranges_and_counts_of_each_chart(library: str) -> None:
    for name, chart, words in LIBRARIES[library]():
        text = describe_value(chart).body

        assert [word for word in words if word not in text] == [], (name, text)
        assert len(text) <= CHART_LIMIT
