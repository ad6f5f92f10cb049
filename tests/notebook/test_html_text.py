"""HTML outputs as text, whoever wrote them."""

import time

import pytest

from tests.on_use import OnUse
from tests.patience import patient
from vibe_jupyter.notebook.document import HTML_READ, html_text

pd = OnUse("pandas")
pl = OnUse("polars")

SECONDS = patient(3.0)
"""Bound on reading any HTML, on a busy machine; a second look at each character takes longer."""


def test_a_table_is_read_row_by_row() -> None:
    frame = pd.DataFrame({"kind": ["a", "b"], "sum": [1.25, None]})

    styled = html_text(frame.style.format(precision=1).to_html())
    plain = html_text(frame.groupby("kind").agg({"sum": ["mean", "max"]}).to_html())

    assert [line.strip() for line in styled.split("\n")] == ["| kind | sum", "0 | a | 1.2", "1 | b | nan"]
    assert [line.strip() for line in plain.split("\n")[:2]] == ["| sum", "| mean | max"]
    assert plain.endswith("a | 1.25 | 1.25\nb | NaN | NaN")


def test_blanks_in_the_names_and_values_of_a_frame_are_kept_and_seen() -> None:
    data = {" price ": [" a "], "unit  cost": ["b  c"], "ok": ["d"]}

    of_pandas = html_text(str(pd.DataFrame(data)._repr_html_()), of_frame=True)
    of_polars = html_text(pl.DataFrame(data)._repr_html_(), of_frame=True)

    assert of_pandas.split("\n") == [" | price | unit  cost | ok", "0 | a | b  c | d"]  # pandas strips, itself
    assert of_polars.split("\n")[1:] == [
        "' price ' | unit  cost | ok",
        "str | str | str",
        '" a " | "b  c" | "d"',
    ]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("<b>bold</b> and <i class='x'>more</i>", "bold and more"),
        ("<h1>Title</h1><p>one<p>two<br>three", "Title\none\ntwo\nthree"),
        ("<ul><li>first<li>second</ul>", "- first\n- second"),
        ("<pre>a\n  b</pre>\n<div>c\n d</div>", "a\n  b\nc d"),
        ("a &lt;td&gt; &amp;lt; &eacute;", "a <td> &lt; é"),
        ("1 < 2 and <3", "1 < 2 and <3"),
        ("a&nbsp;&nbsp;b &nbsp; c", "a  b   c"),
        ("<a title='1 > 0' href=x>link</a>", "link"),
        ("<SCRIPT>var x = '<p>no</p>'</Script><style>p {}</style><svg><text>no</text></svg>yes", "yes"),
        ("<!-- no --><!doctype html><?xml?>yes", "yes"),
        ("<table><tr><th>a<td> b <td>c<tr><td>1</td> <td></td> <td>2", "a | b  | c\n1 |  | 2"),
        ("<table><tr><td></td><td> </td></tr></table>", ""),
        ("<div id='chart'></div><script>draw()", ""),
        ("text <svg>unclosed", "text"),
        ("İ<script>no</script>yes", "İyes"),
        ("", ""),
    ],
)
def test_what_a_browser_would_show_is_the_text(source: str, text: str) -> None:
    assert html_text(source) == text


def test_long_html_is_read_to_a_limit_and_says_so() -> None:
    lines = html_text("<p>word</p>" * HTML_READ).split("\n")

    assert lines[0] == "word"
    assert lines[-1] == f"[… {10 * HTML_READ:,} characters of HTML left out …]"


@pytest.mark.attack("hostile texts", always=True)
@pytest.mark.parametrize(
    "piece",
    [
        "<",
        "<a ",
        "<!--",
        "<div>",
        "<table>",
        "<b><p>",
        "&",
        "</",
        "<td>",
        "<svg>",
        "<script>",
        "<a '",
        '<a b="',
        "<pre>\n",
    ],
)
def test_hostile_html_takes_no_longer_than_its_length(piece: str) -> None:
    started = time.process_time()

    html_text(piece * (HTML_READ // len(piece)))

    assert time.process_time() - started < SECONDS
