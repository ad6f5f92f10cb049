"""HTML of a notebook's file is shown again only where it says what the kept form says."""

import pytest

from tests.ui import corpus
from tests.ui.runs import kept, said
from tests.ui.scenes import ENDS, STARTED, finished
from vibe_jupyter.ui.kept_html import is_kept_form
from vibe_jupyter.ui.markup import html_element, inert_text


@pytest.mark.parametrize("scene", ENDS)
def test_what_a_run_leaves_is_known_as_ours(scene: str) -> None:
    assert is_kept_form(str(kept(ENDS[scene])["text/html"]))


def test_whatever_a_model_or_a_tool_says_what_is_left_of_it_is_ours() -> None:
    refused = [
        (case.id, form.where)
        for case in corpus.cases()
        for form in corpus.shown(case)
        if form.where.endswith("kept") and not is_kept_form(form.html)
    ]
    assert refused == []


def test_formulas_money_and_downloads_are_ours() -> None:
    text = (
        r"Costs $5 and \(\frac{a}{b} < c\) or $$x_1 \in \mathbb{R}$$ & more: [a](https://a.example/?b=1&c=2), `\href`"
    )
    assert is_kept_form(str(kept([STARTED, said(text), finished()])["text/html"]))


HOSTILE = [
    "<script>alert(1)</script>",
    "<div><script>alert(1)</script></div>",
    '<div onclick="alert(1)">x</div>',
    "<div onclick='alert(1)'>x</div>",
    '<a href="javascript:alert(1)">x</a>',
    '<a href="&#106;avascript:alert(1)">x</a>',
    '<a href="data:text/html;base64,PHNjcmlwdD4=">x</a>',
    '<img src="https://evil.example/p.png">',
    '<img src="x" onerror="alert(1)">',
    '<div style="background:url(https://evil.example/p.png)">x</div>',
    '<div style="position:fixed;margin:0">x</div>',
    '<div style="margin:-400px 0">x</div>',
    '<div style="margin:0;background-color:expression(alert(1))"><style>',
    "<svg><a>x</a></svg>",
    "<!-- --><div>x</div>",
    "<div>x</div",
    "<div>x</DIV><SCRIPT>",
    "<button>Allow</button>",
    '<section data-vibe-approval="x">ok</section>',
    '<div class="vibe-card">x</div>',
    '<iframe src="https://evil.example"></iframe>',
    '<form action="https://evil.example"><input></form>',
    r"<div>$\href{javascript:alert(1)}{x}$</div>",
    r"<div>\(\style{background:url(x)}{y}\)</div>",
    r"<div>&#92;(&#92;href{javascript:alert(1)}{x}&#92;)</div>",
    r"<code>a</code></code><div>\(\href{javascript:alert(1)}{x}\)</div>",
]


@pytest.mark.attack("hostile texts", always=True)
@pytest.mark.parametrize("html", HOSTILE)
def test_what_no_run_leaves_is_not_shown(html: str) -> None:
    assert not is_kept_form(html)
    assert not is_kept_form(str(html_element("div", inert_text("ok"))) + html)
