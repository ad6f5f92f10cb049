"""Draws one chart as PNG, in a process of its own: `python -m vibe_jupyter.charts.renderer spec.json picture.png`.

Nothing is fetched: Vega gets no address it may read from, and a figure of plotly that names one, or
shows a map, is not drawn.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any, Final

LIBRARIES: Final = {"vega-lite": "vl_convert", "plotly": "kaleido"}
"""Kind of chart to the package that draws it."""
_ON_MAPS: Final = ("scattergeo", "scattermap", "choropleth", "densitymap")
"""Traces of plotly whose maps come from elsewhere."""
WIDTH: Final = 700
HEIGHT: Final = 450
"""Pixels of a figure of plotly that says nothing of its size."""


def draw_chart(kind: str, spec: dict[str, Any]) -> bytes:
    """The picture of a chart, as PNG."""
    library: Any = importlib.import_module(LIBRARIES[kind])
    if kind == "vega-lite":
        return library.vegalite_to_png(json.dumps(spec), allowed_base_urls=[])
    traces: list[dict[str, Any]] = spec["data"]
    if "://" in json.dumps(spec) or any(str(trace.get("type")).startswith(_ON_MAPS) for trace in traces):
        raise ValueError("Something would be fetched to draw this figure.")
    layout: dict[str, Any] = spec.get("layout") or {}
    size = {"width": layout.get("width") or WIDTH, "height": layout.get("height") or HEIGHT, "format": "png"}
    return library.calc_fig_sync({"data": traces, "layout": layout}, opts=size, kopts={"mathjax": False})


def main() -> None:
    """Read the chart that the first argument names, write its picture where the second says."""
    asked = json.loads(Path(sys.argv[1]).read_bytes())
    Path(sys.argv[2]).write_bytes(draw_chart(asked["kind"], asked["spec"]))


if __name__ == "__main__":
    main()
