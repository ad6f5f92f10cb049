"""Render one chart as PNG in a subprocess: `python -m vibe_jupyter.charts.renderer spec.json picture.png`.

Nothing is fetched: Vega may access no URL, and a Plotly figure that contains one or shows a map isn't rendered.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any, Final

LIBRARIES: Final = {"vega-lite": "vl_convert", "plotly": "kaleido"}  # rendering package by chart type
# Prefixes of Plotly trace types whose maps are fetched.
_ON_MAPS: Final = ("scattergeo", "scattermap", "choropleth", "densitymap")
WIDTH: Final = 700
HEIGHT: Final = 450  # pixels of a Plotly figure without a size


def draw_chart(kind: str, spec: dict[str, Any]) -> bytes:
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
    """Render the chart in the file named by the first argument to the file named by the second."""
    asked = json.loads(Path(sys.argv[1]).read_bytes())
    Path(sys.argv[2]).write_bytes(draw_chart(asked["kind"], asked["spec"]))


if __name__ == "__main__":
    main()
