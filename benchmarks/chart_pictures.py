"""How long the page takes to give a picture of a chart it shows, in a real JupyterLab and Chromium.

Run it with ``PYTHONPATH=. python benchmarks/chart_pictures.py``. The charts are drawn before; a chart that is drawn for
it takes its library's time too. The verdict is on whether the page gave a picture each time: most of what one
takes is the library's drawing, by the clock of a browser, which is shown and not judged.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.report import Row, report, size
from tests.browser.chromium import chromium
from tests.browser.lab import Lab
from tests.browser.server import lab_server

TRIPS: Final = size(20, 2)
PAUSE: Final = 0.3  # seconds between two
POINTS: Final = "x = list(range(2_000))\ny = [value * 37 % 101 for value in x]"
CHARTS: Final = {
    "plotly": "import plotly.express\nplotly.express.scatter(x=x, y=y)",
    "altair": "import altair\nrows = altair.Data(values=[{'x': x, 'y': y} for x, y in zip(x, y)])\n"
    "spec = altair.Chart(rows, width=500).mark_point().encode(x='x:Q', y='y:Q').to_dict()\n"
    "display({'application/vnd.vegalite.v5+json': spec, 'text/plain': ''}, raw=True)",
    "bokeh": "import bokeh.io, bokeh.plotting, bokeh.resources\n"
    "plot = bokeh.plotting.figure(width=600, height=400)\n_ = plot.scatter(x, y)\nbokeh.plotting.show(plot)",
}
START: Final = (
    "%load_ext vibe_jupyter\nfrom benchmarks.bridge_trips import measure\n"
    f"import bokeh.io, bokeh.resources\nbokeh.io.output_notebook(bokeh.resources.INLINE, hide_banner=True)\n{POINTS}"
)


def main() -> int:
    """Print the table."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as home, lab_server(Path(home)) as server, chromium() as browser:
        lab = Lab(browser.new_context(viewport={"width": 1280, "height": 1000}).new_page(), server)
        asking = [f"measure({library!r}, {TRIPS}, {PAUSE})" for library in CHARTS]
        lab.open(START, *CHARTS.values(), *asking)
        for position in range(1 + len(CHARTS)):
            lab.run(position)
            lab.wait_for_count_above(position, None)
        print(f"{'ms':<12}{'median':>9}{'worst':>9}")
        for position, library in enumerate(CHARTS, start=1 + len(CHARTS)):
            lab.run(position)
            lab.wait_for_count_above(position, None)
            said = "".join(lab.outputs(position)[0].get("text", "nothing"))
            has_pictures = said.startswith("[")
            times: list[float] = json.loads(said) if has_pictures else [float("nan")]
            print(f"{library:<12}{statistics.median(times):>9.0f}{max(times):>9.0f}", flush=True)
            if not has_pictures:
                print(f"{library}: {lab.outputs(position)}")
            rows += [
                Row(f"half of the pictures within: {library}", statistics.median(times), unit="ms by the clock"),
                Row(f"charts without a picture: {library}", int(not has_pictures), 0.5),
            ]
        lab.close()
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
