"""The kept form where notebooks are read without Jupyter: nbconvert, exported Markdown, GitHub."""

import html
import re
from collections.abc import Iterable
from pathlib import Path

import nbformat
import nh3
import pytest
from markdown_it import MarkdownIt

from tests.ui.dom import parse
from tests.ui.runs import STARTED, code_finished, code_started, finished, said, transcript
from vibe_jupyter.protocol import Event, Notice
from vibe_jupyter.ui.front_end import Form, RunRetention

CODE = "total = 0\n\n    \nfor one in (1, 2):\n    total += one  # *not* emphasis\n\n\n    print(total)"
ANSWER = (
    "## What came out\n\nThe sum is **three**, `total`.\n\n"
    "| n | sum |\n|---|----:|\n| 2 | 3 |\n\n```python\na = 1\n\n# b\n```"
)
RUN: list[Event] = [
    STARTED,
    said("I will add them."),
    code_started("c0", CODE),
    code_finished("c0", output="1\n\n3\n"),
    code_started("c1", CODE),
    code_finished("c1", "error", summary="KeyError: 'x'"),
    said(ANSWER),
    finished(),
]
IN_ORDER: dict[Form, tuple[str, ...]] = {
    "full": ("2 steps  ran code 2 times (1 failed)", CODE, "1\n\n3", "KeyError", "What came out", "three", "Done ·"),
    "summary": ("2 steps  ran code 2 times (1 failed)", "What came out", "three", "a = 1\n\n# b", "Done ·"),
    "none": ("A run was here: Done, 2 steps.",),
}
"""What a reader must find, one after the other."""
FORMS = ["full", *(pytest.param(form, marks=pytest.mark.matrix) for form in IN_ORDER if form != "full")]

# What GitHub lets through, after the list that its html-pipeline published. Styles and classes are not in it.
GITHUB_TAGS = """
h1 h2 h3 h4 h5 h6 br b i strong em a pre code img tt div ins del sup sub p ol ul table thead tbody tfoot blockquote
dl dt dd kbd q samp var hr ruby rt rp li tr td th s strike summary details caption figure figcaption abbr bdo cite dfn
mark small span time wbr
"""
GITHUB_ANYWHERE = """
abbr align alt aria-hidden aria-label border cellpadding cellspacing colspan dir height hspace id lang open role rowspan
scope start summary tabindex title valign value width
"""
"""Attributes that every element may have, as far as we could write them."""


def as_github(shown: str) -> str:
    attributes = {"*": set(GITHUB_ANYWHERE.split()), "a": {"href"}, "img": {"src", "longdesc"}}
    schemes = {"http", "https", "mailto"}
    return nh3.clean(shown, tags=set(GITHUB_TAGS.split()), attributes=attributes, url_schemes=schemes, link_rel=None)


def bundle(form: Form, *, times: bool = True, events: Iterable[Event] = RUN) -> dict[str, str]:
    kept = transcript(events, RunRetention(form=form, times=times)).bundle()
    return {kind: str(content) for kind, content in kept.items()}


def assert_in_order(text: str, words: Iterable[str]) -> None:
    at = 0
    for word in words:
        found = text.find(word, at)
        assert found >= 0, f"{word!r} is not behind {text[:at][-80:]!r}"
        at = found + len(word)


def export(kind: str, form: Form, folder: Path) -> str:
    """A notebook with a kept run in it, through nbconvert, which takes longer to start than to work."""
    from nbconvert.exporters import get_exporter  # half a second, which those who do not run this need not spend

    output = nbformat.v4.new_output("display_data", data=bundle(form))
    cell = nbformat.v4.new_code_cell("%%vibe\nadd them", outputs=[output], execution_count=1)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), folder / "run.ipynb")
    exported, _ = get_exporter(kind)().from_filename(str(folder / "run.ipynb"))
    return exported


@pytest.mark.requirement("ui.static.kept")
@pytest.mark.parametrize("form", IN_ORDER)
def test_under_the_rules_of_github_a_run_reads_in_the_same_order(form: Form) -> None:
    root = parse(as_github(bundle(form)["text/html"]))
    assert_in_order(root.text, IN_ORDER[form])
    assert not [element for element in root if "style" in element.attributes]


def test_under_the_rules_of_github_code_stays_code_and_tables_stay_tables() -> None:
    root = parse(as_github(bundle("full")["text/html"]))
    assert root.find("pre")[0].text == CODE
    assert [cell.text for cell in root.find("td")] == ["2", "3"]
    assert [cell.attributes.get("align") for cell in root.find("td")] == [None, "right"]
    assert root.find("details")[0].find("summary")[0].text.startswith(IN_ORDER["full"][0])


@pytest.mark.requirement("ui.static.kept")
@pytest.mark.parametrize("form", FORMS)
def test_a_notebook_exported_to_html_holds_the_answer_and_the_steps(form: Form, tmp_path: Path) -> None:
    page = export("html", form, tmp_path)
    shown = page[page.index("jp-OutputArea-output") :]
    assert_in_order(html.unescape(re.sub(r"<[^>]+>", "", shown)), IN_ORDER[form])


@pytest.mark.requirement("ui.static.kept")
@pytest.mark.parametrize("form", FORMS)
def test_a_notebook_exported_to_markdown_reads_as_the_notebook_does(form: Form, tmp_path: Path) -> None:
    exported = export("markdown", form, tmp_path)
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(exported)
    root = parse(as_github(page))
    assert_in_order(root.text, IN_ORDER[form])
    if form == "full":
        assert CODE in [pre.text for pre in root.find("pre")]


@pytest.mark.parametrize("form", IN_ORDER)
def test_the_same_run_leaves_the_same_bytes_however_long_it_took(form: Form) -> None:
    slow: list[Event] = [
        *RUN[:2],
        Notice(level="info", text="Retrying in 1.3 s: the server is busy."),
        RUN[2],
        code_finished("c0", output="1\n\n3\n", seconds=9.5),
        *RUN[4:-1],
        finished(seconds=99.0, cost=0.2, usage={"prompt_tokens": 1, "completion_tokens": 2}),
    ]
    assert bundle(form, times=False) == bundle(form, times=False, events=slow)
    if form != "none":
        assert bundle(form) != bundle(form, events=slow)


def test_without_times_the_foot_still_names_who_answered() -> None:
    last = "Done · 2 steps · devstral-2 · api.mistral.ai · 2 turns"
    assert bundle("full", times=False)["text/plain"].endswith(last)
    assert "0.2 s" in bundle("full")["text/html"]
    assert "0.2 s" not in bundle("full", times=False)["text/html"]


def test_a_call_that_ran_is_still_said_to_have_run_without_times() -> None:
    assert "Run code" not in bundle("full", times=False)["text/html"]


def test_a_summary_keeps_the_last_answer_and_nothing_to_open() -> None:
    root = parse(bundle("summary")["text/html"])
    assert root.find("details") == []
    assert "I will add them." not in root.text
    assert "total += one" not in root.text
    assert bundle("summary")["text/plain"] == bundle("full")["text/plain"]


def test_of_a_run_that_is_not_kept_one_line_is_left() -> None:
    left = bundle("none")
    assert left["text/plain"] == "A run was here: Done, 2 steps."
    assert parse(left["text/html"]).text == left["text/plain"]


@pytest.mark.parametrize("form", IN_ORDER)
def test_why_a_run_failed_is_always_kept(form: Form) -> None:
    events = [*RUN[:-1], finished("error", error="The server refused the key (401). Set `MISTRAL_API_KEY`.")]
    left = bundle(form, events=events)
    assert "Failed" in left["text/plain"]
    assert "Set `MISTRAL_API_KEY`." in left["text/plain"]
    assert parse(left["text/html"]).find("code")[-1].text == "MISTRAL_API_KEY"


@pytest.mark.parametrize("form", IN_ORDER)
def test_while_a_run_goes_on_everything_is_shown(form: Form) -> None:
    shown = transcript(RUN[:4], RunRetention(form=form, times=False)).so_far()["text/html"]
    assert "total" in str(shown)
