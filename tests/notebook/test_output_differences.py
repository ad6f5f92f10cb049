"""What counts as a difference between the outputs of two runs of a cell, and what does not."""

import base64
import io
from typing import Any

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from vibe_jupyter.notebook.output_differences import difference


def printed(text: str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def value(text: str, **more: Any) -> dict[str, Any]:
    return {"output_type": "execute_result", "data": {"text/plain": text, **more}, "metadata": {}}


def raised(name: str, words: str) -> dict[str, Any]:
    return {"output_type": "error", "ename": name, "evalue": words, "traceback": []}


def picture(color: int, software: str = "1") -> dict[str, Any]:
    file, about = io.BytesIO(), PngInfo()
    about.add_text("Software", software)
    Image.new("L", (9, 9), color).save(file, "PNG", pnginfo=about)
    return value("<Figure size 9x9>", **{"image/png": base64.b64encode(file.getvalue()).decode()})


def chart(high: float, uid: str) -> dict[str, Any]:
    return value("Figure()", **{"application/vnd.plotly.v1+json": {"data": [{"y": [1, high], "uid": uid}]}})


FRAME = "     a    b\n0  1.5  2.0\n1  3.0  4.0"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([printed("a\n"), printed("b\n")], [printed("a\nb\n")]),
        ([printed("loss 0.30000001")], [printed("loss 0.30000002")]),
        ([value(FRAME)], [value("       a      b\n0  1.500  2.000\n1  3.000  4.000")]),
        ([value("<A object at 0x7f0012345678>")], [value("<A object at 0x7f9912345678>")]),
        ([printed("Wall time: 3.1 s\nx")], [printed("Wall time: 12 ms\nx")]),
        ([printed("10%\r100%\n")], [printed("50%\r60%\r100%\n")]),
        ([printed("\x1b[31mred\x1b[0m")], [printed("red")]),
        ([printed("careful", "stderr"), printed("x")], [printed("x")]),
        ([picture(3)], [picture(3, software="2")]),
        ([chart(2.0, "a")], [chart(2.0, "b")]),
        ([printed("")], []),
        ([raised("KeyError", "'a'")], [raised("KeyError", "'a'")]),
    ],
)
def test_what_differs_between_any_two_runs_is_no_difference(before: list[Any], after: list[Any]) -> None:
    assert difference(before, after) == ""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([printed("rows 12")], [printed("rows 13")], "shows 'rows 13', was 'rows 12'"),
        ([printed("2000000")], [printed("2000001")], "shows '2000001', was '2000000'"),
        ([value("[1.5, 2000000]")], [value("[1.5, 2000001]")], "shows '[1.5, 2000001]', was '[1.5, 2000000]'"),
        ([printed("rows 2,000,000")], [printed("rows 2,000,001")], "shows 'rows 2,000,001', was 'rows 2,000,000'"),
        ([printed("loss 0.30")], [printed("loss 0.31")], "shows 'loss 0.31', was 'loss 0.30'"),
        ([value(FRAME)], [value(FRAME.replace("3.0", "3.1"))], "shows '1  3.1  4.0', was '1  3.0  4.0'"),
        ([printed("a")], [], "no longer shows text 'a'"),
        ([], [value("7")], "shows more: a value '7'"),
        ([value("7")], [raised("KeyError", "'a'")], "shows an error \"KeyError: 'a'\", was a value '7'"),
        ([picture(3)], [picture(4)], "the picture differs"),
        ([chart(2.0, "a")], [chart(3.0, "a")], "the chart differs"),
        ([printed("v1_2")], [printed("v1_3")], "shows 'v1_3', was 'v1_2'"),
        ([printed("2024-01-02")], [printed("2024-01-03")], "shows '2024-01-03', was '2024-01-02'"),
        ([printed("4.0")], [printed("4")], "shows '4', was '4.0'"),
        (
            [value("<HTML object>", **{"text/html": "<b>one</b>"})],
            [value("<HTML object>", **{"text/html": "<b>two</b>"})],
            "shows 'two', was 'one'",
        ),
    ],
)
def test_another_result_is_told_with_what_was_there(before: list[Any], after: list[Any], said: str) -> None:
    assert difference(before, after) == said
