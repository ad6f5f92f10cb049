"""An answer that is still being written is shown as it will look, with no raw mark of Markdown."""

import random
import re

import pytest

from tests.ui.dom import parse
from tests.ui.runs import STARTED, message, page, said, transcript
from vibe_jupyter.protocol import TextDelta
from vibe_jupyter.ui.page import PatchOutbox, ViewPart

ANSWER = """## What I found

The **Gentoo** birds are *much* heavier: `df.groupby("species")` says **5,076 g** on average, see [the paper](https://a.example/p_1)
and a second line, ~~not~~ 3 * 4 = 12.

- first **point** with `code`
- a [link](https://b.example/x) at its end
  1. inner _item_
  2. and ***both*** marks

| species | mass |
|---|---:|
| Gentoo | **5,076** |
| Adelie | 3,701 |

> quoted `text`

```python
x = {"a": 1}
print(x)  # `not` a *mark*
```

The slope is $a_1 x + b$ and costs $5.
"""
RAW = re.compile(r"\*\*|`|~~|\]\(|^#|\|---|^\s*\||(?<!\w)_(?=\w)", re.MULTILINE)
"""Marks that nobody is to see outside code."""


def seen(parts: list[ViewPart]) -> list[str]:
    """What is read of each part, what stands in code left out."""
    return [f"{re.sub(r'<code.*?</code>', '', part.html, flags=re.DOTALL)}" for part in parts if part.kind != "foot"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 11])
def test_no_raw_mark_is_seen_however_the_pieces_are_cut(size: int) -> None:
    folded = transcript([STARTED])
    for start in range(0, len(ANSWER), size):
        folded.apply(TextDelta(ANSWER[start : start + size]))
        for html in seen(folded.parts()):
            assert not RAW.search(parse(html).text), (ANSWER[: start + size][-40:], html)


def test_what_grew_is_what_is_shown_when_the_message_is_whole() -> None:
    shuffle = random.Random(11)
    for _ in range(20):
        cuts = sorted(shuffle.sample(range(1, len(ANSWER)), 60))
        folded, outbox = transcript([STARTED]), PatchOutbox()
        shown = folded.parts()
        for begin, end in zip([0, *cuts], [*cuts, len(ANSWER)], strict=True):
            shown = page(message(folded.apply(TextDelta(ANSWER[begin:end])), outbox), shown)
            assert [one.html for one in shown if one.kind != "foot"] == [
                one.html for one in folded.parts() if one.kind != "foot"
            ]
        whole = page(message(folded.apply(said(ANSWER)), outbox), shown)
        text = "".join(parse(one.html).text for one in whole if one.kind == "prose")
        assert text == "".join(parse(one.html).text for one in transcript([STARTED, said(ANSWER)]).parts()[:-1])


@pytest.mark.parametrize(
    ("written", "tag", "text"),
    [
        ("It is **bold", "strong", "bold"),
        ("It is **bold*", "strong", "bold"),
        ("Call `df.hea", "code", "df.hea"),
        ("- one\n- two *thr", "em", "thr"),
        ("## Resul", "h4", "Resul"),
        ("> said **wh", "strong", "wh"),
        ("```python\nx = 1", "pre", "x = 1"),
        ("| a | b |\n|---|---|\n", "th", "a"),
        ("~~gon", "s", "gon"),
    ],
)
def test_what_is_open_is_closed_for_now(written: str, tag: str, text: str) -> None:
    (tail, _) = transcript([STARTED, *map(TextDelta, written)]).parts()
    found = parse(tail.html).find(tag)
    assert found, tail.html
    assert found[0].text.strip() == text


@pytest.mark.parametrize("written", ["| a | b |", "- ", "#", "1.", "**", "[", "see ["])
def test_what_the_next_piece_decides_is_not_shown_yet(written: str) -> None:
    parts = transcript([STARTED, *map(TextDelta, written)]).parts()
    assert "".join(parse(part.html).text for part in parts if part.kind == "tail").strip() in ("", "see")


@pytest.mark.parametrize("written", ["It costs $5 and **mor", "a_b_c and 2 * 3 * 4", "a set {x", "5 < 6 & 7 > 3 <b>x"])
def test_signs_that_mark_nothing_stay(written: str) -> None:
    (tail, _) = transcript([STARTED, *map(TextDelta, written)]).parts()
    assert parse(tail.html).text.strip() == written.replace("**", "")


@pytest.mark.parametrize("kind", ["table", "code", "paragraph"])
def test_a_long_block_costs_the_page_little_more_than_its_text(kind: str) -> None:
    pieces = {
        "table": ["| a | b |\n|---|---|\n", *(f"| row {number} | **{number}** |\n" for number in range(250))],
        "code": ["```python\n", *(f"x{number} = `{number}` * 2\n" for number in range(250))],
        "paragraph": [f"word **{number}** more " for number in range(250)],
    }[kind]
    folded, outbox = transcript([STARTED]), PatchOutbox()
    sent = sum(len(str(message(folded.apply(TextDelta(piece)), outbox))) for piece in pieces)
    assert sent < 6 * len("".join(pieces))
