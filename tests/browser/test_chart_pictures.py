"""A model that sees gets pictures of charts that carry none, as the page drew them."""

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.browser.lab import Lab
from vibe_jupyter.files.images import MAX_SIDE
from vibe_jupyter.testing import ModelRequest, ScriptedModel, call, say

pytestmark = pytest.mark.browser

CELLS = '[...[...window.jupyterapp.shell.widgets("main")].find(one => one.content?.model?.cells).content.model.cells]'
LOAD = """\
%load_ext vibe_jupyter
import os
os.environ["VIBE_HOME"] = {home!r}"""
LOAD_BOKEH = """
from bokeh.io import output_notebook
from bokeh.resources import INLINE
output_notebook(INLINE, hide_banner=True)"""
PLOTLY = """\
import plotly.graph_objects as go
print("before")
go.Figure(go.Bar(x=["a", "b"], y=[3, 5], marker_color="#ff0000"), layout={"width": 1600, "height": 400})"""
ALTAIR = """\
import altair
_ = altair.renderers.enable("mimetype")
rows = altair.Data(values=[{"x": 1, "y": 3}, {"x": 2, "y": 5}])
spec = altair.Chart(rows, width=200).mark_area(color="#00ff00", opacity=1).encode(x="x:Q", y="y:Q").to_dict()
display({"application/vnd.vegalite.v5+json": spec, "text/plain": "a chart"}, raw=True)"""
BOKEH = """\
from bokeh.plotting import figure, show
plot = figure(width=300, height=200)
plot.vbar(x=[1, 2], top=[3, 5], width=0.9, color="#0000ff")
show(plot)"""
RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model that says what a test tells it to."""
    with ScriptedModel() as scripted:
        yield scripted


def opened(lab: Lab, model: ScriptedModel, home: Path, *sources: str, load: str = "") -> list[str]:
    """A notebook with a prompt and these cells, its extension loaded; the ids of the cells."""
    (home / "config.toml").write_text(
        f'active_model = "eyes"\n[[providers]]\nname = "local"\napi_base = "{model.url}"\n'
        '[[models]]\nname = "eyes"\nprovider = "local"\nsupports_images = true\n',
        encoding="utf-8",
    )
    lab.open(LOAD.format(home=str(home)) + load, "%%vibe --yes=run_cells\nlook at the charts", *sources)
    lab.run(0)
    lab.wait_for_count_above(0, None)
    return lab.page.evaluate(f"() => {CELLS}.map(cell => cell.id)")


def over(lab: Lab) -> None:
    """The run is over and the kernel idle."""
    lab.wait_for_count_above(1, None)
    lab.wait_until_idle()


def images_in(request: ModelRequest) -> list[Image.Image]:
    """All that the model was sent, in their order."""
    found: list[Any] = [
        part for message in request.messages if isinstance(message.get("content"), list) for part in message["content"]
    ]
    urls = [part["image_url"]["url"] for part in found if part["type"] == "image_url"]
    return [Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).convert("RGB") for url in urls]


def share_of(image: Image.Image, color: tuple[int, int, int]) -> float:
    """Of the pixels that have exactly this color."""
    return sum(count for count, one in image.getcolors(1 << 24) or [] if one == color) / (image.width * image.height)


@pytest.mark.matrix
def test_a_model_that_sees_gets_the_picture_that_the_page_drew(lab: Lab, model: ScriptedModel, tmp_path: Path) -> None:
    charts = opened(lab, model, tmp_path, PLOTLY, ALTAIR, BOKEH, load=LOAD_BOKEH)[2:5]
    model.will_reply(
        call("read_notebook"),
        call("run_cells", cells=charts),
        call("read_notebook", cells=[charts[0]], outputs="images"),
        say("Three charts."),
    )
    lab.run(1)
    over(lab)

    after_run, after_read = images_in(model.requests[2]), images_in(model.requests[3])

    assert [[round(share_of(image, color), 1) > 0 for color in (RED, GREEN, BLUE)] for image in after_run] == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]
    wide = after_run[0]
    assert (wide.width, wide.height) == (MAX_SIDE, MAX_SIDE // 4)
    assert all(max(image.size) <= MAX_SIDE for image in after_run)
    assert len(after_read) == 4
    assert round(share_of(after_read[3], RED), 1) > 0
    said = str(model.requests[2].body)
    assert all(f"{library} " in said for library in ("plotly", "altair", "bokeh"))


@pytest.mark.matrix
def test_the_picture_shows_nothing_that_other_outputs_or_cells_show(
    lab: Lab, model: ScriptedModel, tmp_path: Path
) -> None:
    drawing = "<svg width='300' height='200'><rect width='300' height='200' fill='#{}'/></svg>"
    beside = f'from IPython.display import HTML\ndisplay(HTML("{drawing.format("ff0000")}"))\n'
    hidden = f"\ndisplay(HTML(\"<div style='display:none'>{drawing.format('0000ff')}</div>\"))"
    secret = f'from IPython.display import HTML\nHTML("{drawing.format("0000ff")}")'
    charts = opened(lab, model, tmp_path, secret, beside + ALTAIR + hidden)
    lab.run(2)
    expect(lab.output(2).locator("svg rect")).to_be_visible()
    model.will_reply(call("read_notebook"), call("run_cells", cells=[charts[3]]), say("One chart."))
    lab.run(1)
    over(lab)

    (image,) = images_in(model.requests[2])

    assert share_of(image, GREEN) > 0.1
    assert (share_of(image, RED), share_of(image, BLUE)) == (0, 0)
