"""Secrets beyond every bound: thousands met before, containers too large to look at, texts too long to search."""

import random
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from types import ModuleType

import pandas as pd
import pytest

from tests.secrets.kinds import ALNUM, text_of
from vibe_jupyter.permissions import redaction
from vibe_jupyter.permissions.known_secrets import LONGEST, KnownSecrets
from vibe_jupyter.permissions.redaction import (
    LONGEST_TEXT,
    PLACEHOLDER,
    RedactedStream,
    Redactor,
    redacted_report,
)
from vibe_jupyter.permissions.secret_shapes import Span, holds_secret, is_secret_name
from vibe_jupyter.permissions.secret_sources import LEARNED
from vibe_jupyter.protocol import TextPart, ToolResult
from vibe_jupyter.variables import secret_memory
from vibe_jupyter.variables.secret_memory import KEPT
from vibe_jupyter.variables.secret_values import ROWS, STEPS, SecretValues

pytestmark = [pytest.mark.attack("secrets")]
SECRET = "Rb5Tn8vYc3Wd6Fj1"
WORDS = "river table candle window"
Account = namedtuple("Account", "user password")


class Slotted:
    __slots__ = ("password", "user")

    def __init__(self, password: str) -> None:
        self.password = password


class Plain:
    def __init__(self, password: str) -> None:
        self.password = password


def tokens(count: int, seed: int = 1) -> list[str]:
    rng = random.Random(seed)
    return [text_of(rng, ALNUM, 24) for _ in range(count)]


def redactor_of(namespace: dict[str, object]) -> Redactor:
    """A redactor that has looked at these variables."""
    values = SecretValues(lambda: namespace, names_secret=is_secret_name, holds_secret=holds_secret)
    redactor = Redactor(found=values, partly=values.partly_known)
    redactor.look()
    return redactor


def nested(levels: int) -> object:
    found: object = {"password": WORDS}
    for level in range(levels):
        found = {f"level_{level}": found} if level % 2 else [found]
    return found


def module() -> ModuleType:
    settings = ModuleType("settings")
    settings.__file__ = "/home/joe/project/settings.py"
    settings.__dict__["DB_PASSWORD"] = WORDS
    return settings


PLACES: dict[str, Callable[[], dict[str, object]]] = {
    "after 10,000 columns' values": lambda: {
        **{f"log_{n}": pd.DataFrame({"session_token": tokens(2_500, n)}) for n in range(4)},
        "account": Plain(WORDS),
    },
    "after 10,000 variables": lambda: {**{f"token_{n}": one for n, one in enumerate(tokens(10_000))}, "pwd": WORDS},
    "among 20,000 variables": lambda: {"passphrase": WORDS, **{f"value_{n}": [n] for n in range(20_000)}},
    "the middle of a dict": lambda: {
        "d": {**{f"key{n}": str(n) for n in range(4_000)}, "password": WORDS, **{f"z{n}": n for n in range(4_000)}}
    },
    "the middle of a list of records": lambda: {
        "rows": [*({"id": n} for n in range(900)), {"id": 0, "password": WORDS}, *({"id": n} for n in range(900))]
    },
    "twelve levels down": lambda: {"config": nested(12)},
    "a named tuple": lambda: {"account": Account("joe", WORDS)},
    "slots": lambda: {"account": Slotted(WORDS)},
    "a subclass of dict": lambda: {"settings": type("Bunch", (dict,), {})(password=WORDS)},
    "an ordered dict in a tuple": lambda: {"settings": (1, OrderedDict(password=WORDS))},
    "a module of the user's": lambda: {"settings": module()},
    "the middle of a column": lambda: {"frame": pd.DataFrame({"password": [*tokens(1_000), WORDS, *tokens(1_000, 2)]})},
    "the middle of an array": lambda: {
        "passwords": pd.Series([*tokens(1_000), WORDS, *tokens(1_000, 2)]).to_numpy(dtype=object)
    },
    "bytes": lambda: {"password": WORDS.encode()},
    "a bytearray": lambda: {"password": bytearray(WORDS.encode())},
}


@pytest.mark.requirement("permission.data.budgets")
@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_known_wherever_it_is_and_whatever_else_there_is(place: str) -> None:
    redactor = redactor_of(PLACES[place]())
    assert redactor(f"it is {WORDS}.", look=False) == f"it is [redacted: password, {len(WORDS)} characters]."
    assert redactor.news() == []


@pytest.mark.requirement("permission.data.budgets")
def test_a_value_that_is_longer_than_what_is_remembered_of_it_is_redacted_to_its_end() -> None:
    long = "".join(tokens(LONGEST // 10))
    redactor = redactor_of({"api_key": long})
    assert redactor(f"see {long}", look=False) == f"see [redacted: API key, {len(long):,} characters]"


@pytest.mark.requirement("permission.data.budgets")
def test_a_binary_key_is_redacted_as_python_prints_it() -> None:
    key = bytes(range(120, 152))
    assert redactor_of({"secret_key": key})(f"key {key!r}", look=False).startswith("key b'[redacted: ")


LARGE: dict[str, Callable[[str], dict[str, object]]] = {
    "column": lambda value: {"frame": pd.DataFrame({"session_token": [*tokens(10) * ROWS, value, *tokens(10) * 99]})},
    "column of objects": lambda value: {
        "frame": pd.DataFrame({"session_token": pd.Series([*tokens(10) * ROWS, value, *tokens(10) * 99], dtype=object)})
    },
    "list": lambda value: {"api_tokens": [*tokens(20_000), value, *tokens(20_000, 2)]},
    "dict": lambda value: {"api_tokens": dict(enumerate([*tokens(20_000), value, *tokens(20_000, 2)]))},
    "records": lambda value: {
        "rows": [{"id": n, "api_key": one} for n, one in enumerate([*tokens(20_000), value, *tokens(20_000, 2)])]
    },
    "set": lambda value: {"api_tokens": {*tokens(20_000), value, *tokens(20_000, 2)}},
    "list of objects": lambda value: {"accounts": [Plain(one) for one in [*tokens(8_000), value, *tokens(900, 2)]]},
}


@pytest.mark.requirement("permission.data.budgets")
@pytest.mark.parametrize("source", LARGE)
def test_of_a_source_that_is_too_large_no_value_is_sent_and_the_user_is_told_once(source: str) -> None:
    redactor = redactor_of(LARGE[source](SECRET))
    result = ToolResult.text(f"of 1,234 rows [{SECRET}] is odd, and so is customer_id_2024 = 1.25e-07")
    (part,) = redactor.output(result).parts
    assert isinstance(part, TextPart)
    assert SECRET not in part.text
    assert part.text.startswith("of 1,234 rows [")
    assert part.text.endswith("is odd, and so is customer_id_2024 = 1.25e-07")
    stream = RedactedStream(redactor, of_output=True)
    shown = "".join(stream.feed(piece) for piece in (SECRET[:5], SECRET[5:], " and more\n")) + stream.end()
    assert SECRET not in shown
    assert shown.endswith(" and more\n")
    (told,) = redactor.news()
    assert "are remembered as secrets" in told
    assert "[privacy] allow" in told
    redactor.look()
    assert redactor.news() == []


@pytest.mark.requirement("permission.data.budgets")
def test_values_of_plain_words_in_a_source_that_is_too_large_withhold_outputs_whole() -> None:
    redactor = redactor_of({"passwords": [f"river candle {n}" for n in range(60_000)]})
    (part,) = redactor.output(ToolResult.text("it is river candle 30000")).parts
    assert part == TextPart(text="[withheld: 24 characters that may hold secrets which are not all known]")
    assert redactor("What is a password?", look=False) == "What is a password?"  # what the user wrote


@pytest.mark.requirement("permission.data.budgets")
def test_an_exception_in_the_settings_withholds_nothing() -> None:
    values = SecretValues(lambda: LARGE["column"](SECRET), names_secret=is_secret_name, holds_secret=holds_secret)
    redactor = Redactor(found=values, partly=values.partly_known, allows=lambda name: name == "session_token")
    redactor.look()
    assert redactor.output(ToolResult.text(SECRET)).parts == (TextPart(text=SECRET),)
    assert redactor.news() == []


@pytest.mark.requirement("permission.data.budgets")
def test_a_large_list_of_words_under_a_name_that_may_be_a_secrets_withholds_nothing() -> None:
    redactor = redactor_of({"tokens": ["the", "token", "bucket", "refills"] * 20_000})
    assert redactor.output(ToolResult.text(SECRET)).parts == (TextPart(text=SECRET),)
    assert redactor.news() == []


@pytest.mark.requirement("permission.data.budgets")
def test_the_values_seen_least_recently_go_first_and_are_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_memory, "KEPT", {**KEPT, "containers": 100})
    namespace: dict[str, object] = {"config": {"api_key": SECRET}}
    values = SecretValues(lambda: namespace, names_secret=is_secret_name, holds_secret=holds_secret)
    redactor = Redactor(found=values, partly=values.partly_known)
    redactor.look()
    first, later = tokens(60), tokens(60, 2)
    for batch in (first, later):
        namespace["batch"] = [{"api_key": one} for one in batch]
        redactor.look()
    assert len(values()) <= 100
    assert set(later) <= values().keys()
    assert SECRET in values()  # still bound
    (part,) = redactor.output(ToolResult.text(" ".join([*first, *later, SECRET]))).parts
    assert isinstance(part, TextPart)
    assert [one for one in (*first, *later, SECRET) if one in part.text] == []
    assert len(redactor.news()) == 1


@pytest.mark.requirement("permission.data.budgets")
def test_texts_that_name_more_secrets_than_are_remembered_send_none_of_them() -> None:
    redactor = Redactor()
    first = "x7Gh2-kQw9"
    redactor(f"password = '{first}'")
    for batch in range(0, LEARNED + 1_000, 1_000):
        redactor("\n".join(f"api_key = '{one}'" for one in tokens(1_000, batch)))
    assert first not in redactor.output_text(f"it is {first}")
    assert len(redactor.memory.learned) <= LEARNED
    (told,) = redactor.news()
    assert told.startswith("Texts of this session named more secrets than are remembered")


@pytest.mark.requirement("permission.data.copies-forget")
def test_what_a_copy_found_redacts_its_report_alone() -> None:
    report = ToolResult.text(f"{WORDS} and a DataFrame")
    found = {WORDS: "password", "DataFrame": "password", "no secret": "note"}
    assert redacted_report(report, found, {}).parts == (
        TextPart(text=f"[redacted: password, {len(WORDS)} characters] and a DataFrame"),
    )
    assert Redactor().output(report) == report


@pytest.mark.requirement("permission.data.copies-forget")
def test_what_a_copy_could_not_look_at_whole_is_withheld_in_its_report() -> None:
    (part,) = redacted_report(ToolResult.text(f"it is {SECRET}."), {}, {"session_token": (tokens(1)[0],)}).parts
    assert part == TextPart(text="it is [withheld: 17 characters]")


@pytest.mark.requirement("permission.data.ordinary-words")
@pytest.mark.parametrize("word", ["DataFrame", "read_csv", "pandas.DataFrame", "function", "notebook", "ValueError"])
def test_an_ordinary_word_that_is_a_password_garbles_no_text(word: str) -> None:
    redactor = redactor_of({"password": word})
    assert redactor(f"a {word} of 3 rows", look=False) == f"a {word} of 3 rows"
    assert redactor(f"password = '{word}'") == f"password = '[redacted: password, {len(word)} characters]'"


@pytest.mark.requirement("permission.data.ordinary-words")
@pytest.mark.parametrize("word", ["dragonfly", "correcthorse", "DataFrame7", "DataFrame!"])
def test_any_other_word_is_redacted_wherever_it_stands(word: str) -> None:
    redactor = redactor_of({"password": word})
    assert redactor(f"it is {word}", look=False) == f"it is [redacted: password, {len(word)} characters]"


@pytest.mark.requirement("permission.data.cut-first")
def test_only_the_beginning_and_the_end_of_a_long_text_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    shaped = redaction.shaped

    def counted(text: str) -> object:
        searched.append(len(text))
        return shaped(text)

    monkeypatch.setattr(redaction, "shaped", counted)
    line = f"row with session_token={SECRET} and more of it\n"
    text = Redactor()(line * (20_000_000 // len(line)))
    assert sum(searched) <= LONGEST_TEXT + 10_000
    assert SECRET not in text
    assert "characters left out …]" in text


@pytest.mark.requirement("permission.data.cut-first")
@pytest.mark.parametrize("shift", [*range(-30, 31, 6)])
@pytest.mark.parametrize("border", ["begin", "end"])
def test_a_secret_at_the_cut_is_redacted(border: str, shift: int) -> None:
    length, half = 3 * LONGEST_TEXT, LONGEST_TEXT // 2
    at = (half if border == "begin" else length - half) + shift
    for value, redactor in ((WORDS, Redactor({WORDS: "A_KEY"})), (f"password={SECRET}", Redactor())):
        text = "x " * (at // 2) + value
        text += " y" * ((length - len(text)) // 2)
        redacted = redactor(text)
        pieces = {value[n : n + 8] for n in range(len(value) - 7)} if value is WORDS else {SECRET[:8], SECRET[-8:]}
        assert [piece for piece in pieces if piece in redacted] == []


@pytest.mark.requirement("permission.data.cut-first")
def test_rows_of_a_table_that_was_cut_are_redacted_below_the_cut() -> None:
    head = "id,session_token,n\n"
    rows = [f"{n},{one},3\n" for n, one in enumerate(tokens(60_000))]
    redacted = Redactor()(head + "".join(rows))
    assert "left out …]" in redacted
    assert [one for one in tokens(60_000)[-200:] if one in redacted] == []


def test_an_index_of_many_values_finds_each_in_every_place() -> None:
    values = tokens(30_000)
    index = KnownSecrets(dict.fromkeys(values, "token"))
    some = values[::997]
    text = " ".join(some)
    assert [text[span.start : span.end] for span in index.spans(text)] == some
    assert list(index.spans(" ".join(tokens(200, 5)))) == []
    assert [span for span in index.spans(f"'{values[7][:14]}…'")] == [Span(1, 15, "token", "token")]


def test_no_harmless_text_is_redacted_beside_30_000_values() -> None:
    redactor = Redactor(dict.fromkeys(tokens(30_000), "token"))
    text = "The model reads 1,234 rows of penguins.csv; commit 8d3e0e0f, https://doi.org/10.1371/journal.pone.0012345\n"
    assert redactor(text * 200) == text * 200
    assert PLACEHOLDER.search(redactor(text)) is None


def test_a_look_counts_no_more_steps_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of a large namespace is bounded, and comes to all of it in turn."""
    namespace: dict[str, object] = {f"data_{n}": [[n] * 10 for _ in range(2_000)] for n in range(6)}
    namespace["data_0"] = [{"password": WORDS}, *([n] for n in range(2_000))]
    values = SecretValues(lambda: namespace, names_secret=is_secret_name, holds_secret=holds_secret)
    calls = 0

    def count(frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        values.look()
    finally:
        sys.setprofile(None)
    assert calls < 3 * STEPS
    for _ in namespace:
        values.look()
    assert WORDS in values()
