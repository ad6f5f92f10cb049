"""Text in pieces, as models and running code give it: no secret is shown, wherever the pieces part it."""

import asyncio
import random
import re
import time
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.patience import patient
from tests.secrets.kinds import ALNUM, KINDS, Kind, text_of
from tests.secrets.spellings import HARMLESS, SPELLINGS
from vibe_jupyter.agent.call_context import LOOK_SHARE, ProgressStreams
from vibe_jupyter.agent.model_call import AnswerText
from vibe_jupyter.permissions.redaction import HELD_LIMIT, PLACEHOLDER, RedactedStream, Redactor, may_hold_secret
from vibe_jupyter.permissions.secret_shapes import shaped
from vibe_jupyter.protocol import ToolProgress

WORDLIKE = {
    "sunshine": "it is sunshine, and (sunshine) again",
    "correct horse battery": "say correct horse battery. Then correct horse is no more",
    "my dog ate it all": "they say my dog ate it all now",
    "a b c d e f": "so a b c d e f g",
    "SUNSHINEday": "it is SUNSHINEday",
    "aaaaaaab": "it is aaaaaaaaab now",
    "one two three": "one two one two three four",
    "line of a key\nand one more": "it is line of a key\nand one more\nof it",
}
"""Values that people make up, and a text with each."""
FRAGMENTS = (
    *(
        "pass",
        "sid",
        "Sid",
        "SID",
        "inside",
        "user_sid",
        "sig",
        "sign",
        "key",
        "monkey",
        "api",
        "token",
        "=",
        ":",
        " ",
        "\n",
    ),
    *(
        '"',
        "'",
        "|",
        ",",
        "-",
        "_",
        ".",
        "/",
        "@",
        "://",
        "$y$",
        "$6$",
        ":*:",
        "a",
        "b1",
        "Z9",
        "x" * 12,
        "Q7" * 6,
        "²",
    ),
    *(
        "sk-",
        "hf_",
        "dapi",
        "AKIA",
        "eyJ",
        "hooks.slack.com/services/",
        "Fernet(",
        "basic ",
        "curl -u ",
        "http -a ",
        "é",
    ),
    *(
        "machine a ",
        "login b ",
        "redis-cli -a ",
        "mysql -p",
        "-us1",
        "0123456789abcdef" * 2,
        "M" + "a" * 24 + ".",
        "\x1b[1m",
    ),
)
COST_OF_LOOK = 0.002
"""Seconds, as for some 4,000 variables."""


@pytest.mark.attack("secrets", always=True)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_text_in_pieces_is_redacted_wherever_it_is_cut(kind: Kind) -> None:
    one = kind.make(random.Random(1))
    text = f"begin\n{one.name} = {one.text!r}\nmore of it\n"
    whole = Redactor()(text)
    for cut in range(1, len(text)):
        stream = RedactedStream(Redactor())
        assert plain(stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.end()) == plain(whole)
    stream = RedactedStream(Redactor())
    assert plain("".join(map(stream.feed, text)) + stream.end()) == plain(whole)


def plain(text: str) -> str:
    """Without the first letters of a secret, which a stream may have shown as the word that they could have been."""
    return re.sub(
        r"[^\w\s]{0,200}(?:[^\W\d_]?[^\W\d_A-Z]{0,24}|\d{1,6}(?:[.,:]\d{1,6})?)[^\w\s]{0,4}(?=\[redacted: )", "", text
    )


def test_a_plain_word_is_shown_at_once_and_anything_else_when_it_is_whole() -> None:
    stream = RedactedStream(Redactor())
    pieces = ["**Look:**", " reads tab", "le_2. A token is", " a word: 42.", " Its k3"]
    assert [stream.feed(piece) for piece in pieces] == [
        "**Look:**",
        " reads tab",
        "le_2. A token is",
        " a word: 42.",
        " Its ",
    ]
    assert stream.end() == "k3"


def test_a_key_that_does_not_end_is_not_held_back_for_ever() -> None:
    stream = RedactedStream(Redactor())
    assert stream.feed("-----BEGIN PRIVATE KEY-----\n") == ""
    line = "x7Gh2kQw9Lm4Pz8" * 4 + "\n"
    shown = "".join(stream.feed(line) for _ in range(HELD_LIMIT // len(line) + 1))
    assert PLACEHOLDER.search(shown)
    assert "x7Gh2kQw" not in shown


def test_an_answer_is_streamed_without_a_look_through_the_variables_for_each_piece() -> None:
    looks: list[int] = []

    def found() -> dict[str, str]:
        looks.append(1)
        return {"Qx7Gh2kQw9Lm4Pz8": "api_key"}

    redactor = Redactor(found=found)
    redactor("The turn begins.")
    stream = RedactedStream(redactor)
    said = "".join(stream.feed(piece) for piece in ("It is Qx7Gh2", "kQw9Lm4Pz8 ", "and no other."))
    assert said + stream.end() == "It is [redacted: API key, 16 characters] and no other."
    assert len(looks) == 1


@pytest.mark.attack("secrets", always=True)
@pytest.mark.parametrize("value", WORDLIKE)
def test_a_known_value_of_plain_words_is_not_shown_in_pieces(value: str) -> None:
    text = WORDLIKE[value]
    whole = Redactor({value: "A_KEY"})(text)
    assert value not in whole
    sizes = [[text[at : at + size] for at in range(0, len(text), size)] for size in range(1, 8)]
    for pieces in [*sizes, *([text[:cut], text[cut:]] for cut in range(1, len(text)))]:
        stream = RedactedStream(Redactor({value: "A_KEY"}))
        shown = "".join(map(stream.feed, pieces)) + stream.end()
        # The first letter may have been shown, as the word that it could have been.
        assert re.sub(r"\w(?=\[redacted: )", "", shown) == re.sub(r"\w(?=\[redacted: )", "", whole)


def test_what_is_passed_on_without_the_rules_has_nothing_for_them() -> None:
    for kind in KINDS:
        for seed in range(5):
            one = kind.make(random.Random(seed))
            for text in (f"{one.name} = {one.text!r}", one.text):
                assert may_hold_secret(text) or Redactor()(text) == text
    for spelling in SPELLINGS.values():
        text = spelling.replace("§", text_of(random.Random(1), ALNUM, 20))
        assert may_hold_secret(text)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=6)), max_size=14).map("".join))
def test_no_other_text_has_anything_for_them_either(text: str) -> None:
    if not may_hold_secret(text):
        assert list(shaped(text)) == []
        assert Redactor()(text) == text


def test_words_as_people_write_them_are_passed_on_without_the_rules() -> None:
    text = "Considering the significant residuals inside `orders.merge(customers)`, the pattern holds (see 3.1)."
    assert not may_hold_secret(text)
    assert sum(map(may_hold_secret, HARMLESS)) < len(HARMLESS)


def test_looking_through_many_variables_takes_a_small_share_of_the_time_that_code_prints() -> None:
    looks: list[float] = []

    def found() -> dict[str, str]:
        looks.append(busy(COST_OF_LOOK))
        return {}

    shown, seconds = printed(Redactor(found=found), [f"step {number}\n" for number in range(3_000)])
    assert shown.splitlines() == [f"step {number}" for number in range(3_000)]
    assert len(looks) <= seconds * LOOK_SHARE / COST_OF_LOOK + 3


@pytest.mark.attack("secrets", always=True)
def test_a_variable_that_code_binds_while_it_prints_is_redacted_from_its_first_piece() -> None:
    variables: dict[str, str] = {}

    def found() -> dict[str, str]:
        busy(COST_OF_LOOK)
        return dict(variables)

    def pieces() -> Iterator[str]:
        for number in range(300):
            value = f"plain words {number:03} of mine"
            variables[value] = "password"
            yield f"now {value[:7]}"
            yield f"{value[7:]}, {number}\n"

    shown, _ = printed(Redactor(found=found), pieces())
    assert "of mine" not in shown
    assert shown.count("[redacted: password, 23 characters]") == 300


def busy(seconds: float) -> float:
    """Take that much time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return seconds


def printed(redactor: Redactor, pieces: Iterable[str]) -> tuple[str, float]:
    """What is shown of pieces that another thread prints as fast as it can, and the seconds it took."""
    shown: list[str] = []

    async def run() -> float:
        streams = ProgressStreams(redactor, lambda progress: shown.append(progress.text))

        def code() -> None:
            for piece in pieces:
                streams.take(ToolProgress(call_id="1", text=piece))
            streams.take(ToolProgress(call_id="1", text=" end\n"))

        began = time.monotonic()
        await asyncio.to_thread(code)
        while not shown[-1].endswith(" end\n"):
            await asyncio.sleep(0.001)
            assert time.monotonic() < began + patient(30)
        return time.monotonic() - began

    seconds = asyncio.run(run())
    return "".join(shown).removesuffix(" end\n"), seconds


def test_pieces_of_an_answer_are_shown_in_the_turn_they_came_in_and_judged_together() -> None:
    shown: list[str] = []

    async def run() -> None:
        text = AnswerText(Redactor({"my dog ate it all": "A_KEY"}), shown.append)
        for piece in ("It is", " my", " dog"):
            text.add(piece)
        await asyncio.sleep(0)
        assert shown == ["It is "]
        text.add(" ate it all")
        text.add(", he said")
        await asyncio.sleep(0)
        text.end()

    asyncio.run(run())
    assert "".join(shown) == "It is [redacted: A_KEY, 17 characters], he said"
    assert len(shown) <= 3
