"""What the redactor finds, what it leaves alone, and what it costs."""

import base64
import json
import random
import time
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.drawn_values import PATIENT
from tests.secrets.harmless import values
from tests.secrets.kinds import ALNUM, KINDS, Kind, text_of
from tests.secrets.spellings import HARMLESS, SPELLINGS
from vibe_jupyter.permissions.known_secrets import KnownSecrets
from vibe_jupyter.permissions.redaction import PLACEHOLDER, Redactor
from vibe_jupyter.protocol import AssistantMessage, MessageAdded, ReasoningPart, ToolCall, ToolFinished
from vibe_jupyter.protocol.tools import TABLE_MIME, Headline

SEEDS = 5
ROUNDS = 2
LONG = 125_000  # characters
HOSTILE = (
    *("a", "pwd", "pwd=", 'password="', "password=a ", "password=[", "password={", "password='\\", "://", "a://b:"),
    *("eyJ", "eyJaaaaaaaaaa.", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "curl ", "login ", "mysql "),
    *(
        "login a password ",
        "SK",
        "-us1",
        "0123456789abcdef",
        "key-",
        "sk-",
        "Maaaaaaaaaaaaaaaaaaaaaaaa.",
        ":*:",
        "$2b$",
    ),
    *("user,password\n", "password,", "user password\n", "password|a|b|c\n", "bearer ", "basic ", "<password ", "\n"),
    *("name: password\n value: ", "password:\n ", 'variable "pw" {', "login(a, ", "the token is ", "[tokens]\n"),
    *("pw, a = 'b', ", "password  aaaaaaa1\n", "password= or ", "Name: password, dtype: object\n", "<th>password</th>"),
    *(
        "0  a\n",
        "x  y1234567\nName: password, dtype: object\n",
        "\x1b[31mpassword",
        ";PWD=",
        "token%3D",
        "eyJaaaaaaaaa.\n",
    ),
    *("left out …]\n", "key '\\", "[redacted: ", "Cookie: a=b; ", "_authToken="),
)
SLOWEST = 2.0
"""Seconds of CPU for a hostile text on a busy machine; the slowest takes 0.3, one secret in each ten characters."""
MOST_GROWTH = 8
"""Times the cost for four times the text: what grows with the square takes 16 times."""
MEASURABLE = 0.1
"""Seconds of CPU below which a busy machine says nothing of growth."""


def forms(name: str, text: str) -> dict[str, str]:
    """How a secret stands in code, settings, messages and differences."""
    line = text.replace("\n", "\\n")
    written = {
        "code": f"{name} = {text!r}\n",
        "environment": f"export {name.upper()}={text}\n",
        "json": json.dumps({"n": 1, name: text}, indent=1),
        "json in json": json.dumps({"x": json.dumps({name: text})}),
        "yaml": f"{name}: {text}\n",
        "argument": f"connect({name}={text!r}, port=1)",
        "variable": f"{name}: str {text!r}\n",
        "message": f"ValueError: cannot use {name}={text}",
        "difference": f'+{name} = "{line}"\n',
        "search": f"settings.py:12:{name} = {text!r}",
        "header of xml": f"<{name}>{line}</{name}>",
    }
    if "\n" not in text and "," not in text:
        written["table"] = f"id,{name},n\n1,{text},3\n"
    return written


@pytest.mark.attack("secrets", always=True)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_is_found_however_it_is_written(kind: Kind) -> None:
    missed = [
        (form, seed)
        for seed in range(SEEDS)
        for one in [kind.make(random.Random(seed))]
        for form, text in forms(one.name, one.text).items()
        for redacted in [Redactor()(text)]
        if any(secret in redacted for secret in one.secrets)
    ]
    assert missed == []


@pytest.mark.attack("secrets", always=True)
@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_a_secret_is_found_however_files_commands_and_sentences_spell_it(spelling: str) -> None:
    secrets = [text_of(random.Random(seed), ALNUM, 20) for seed in range(SEEDS)]
    assert [secret for secret in secrets if secret in Redactor()(spelling.replace("§", secret))] == []


def test_a_random_key_that_begins_like_a_path_is_no_path() -> None:
    keys = [f"/{text_of(random.Random(seed), f'{ALNUM}+/', 39)}" for seed in range(200)]
    found = [key for key in keys if key not in Redactor()(f"AWS_SECRET_ACCESS_KEY={key}\n")]
    assert len(found) >= 180
    for path in ("/home/anna/keys/id_ed25519", "/content/drive/MyDrive/Kaggle2024Competition/key.json"):
        assert path in Redactor()(f"SECRET_KEY={path}\n")


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_sounds_like_a_secret_stays(text: str) -> None:
    assert Redactor()(text) == text


def test_at_most_four_of_200_harmless_values_are_redacted() -> None:
    for seed in range(SEEDS):
        redactor = Redactor()
        assert len([value for value in values(seed) if redactor(value) != value]) <= 4


@pytest.mark.attack("secrets", always=True)
@pytest.mark.parametrize("piece", HOSTILE, ids=repr)
def test_time_grows_with_the_text_and_no_faster(piece: str) -> None:
    redactor = Redactor({"plantedValue123456": "A_KEY"})
    quarter, whole = (piece * (size // len(piece)) for size in (LONG // 4, LONG))
    once = _one_cost(redactor, whole)
    if once >= MEASURABLE:
        assert min(once, _one_cost(redactor, whole)) < max(MOST_GROWTH * _cost(redactor, quarter), MEASURABLE)
    assert once < SLOWEST


def _cost(redactor: Redactor, text: str) -> float:
    """Seconds of CPU, the least of a few: other processes can only add to it."""
    return min(_one_cost(redactor, text) for _ in range(ROUNDS))


def _one_cost(redactor: Redactor, text: str) -> float:
    began = time.process_time()
    redactor(text)
    return time.process_time() - began


@PATIENT
@given(st.text(max_size=200))
@example('00"|')
def test_what_is_redacted_once_stays_as_it_is(text: str) -> None:
    redactor = Redactor()
    once = redactor(f"password = {text!r} {text}")
    assert redactor(once) == once


def test_the_arguments_of_a_call_stay_json() -> None:
    arguments = json.dumps({"code": 'password = "hunter22hunter"\nconnect(password)', "keep": True})
    message = AssistantMessage(
        parts=(ToolCall(id="1", name="run_code", arguments=arguments),), stop_reason="tool_calls"
    )
    event = Redactor().value(MessageAdded(message=message))
    assert isinstance(event.message, AssistantMessage)
    kept = json.loads(event.message.calls[0].arguments)
    assert kept == {"code": 'password = "[redacted: password, 14 characters]"\nconnect(password)', "keep": True}


KNOWN = "Zq9-kT4vWx7Lm2Pd"
FOREIGN: list[dict[str, JsonValue]] = [
    *({name: KNOWN} for name in ("data", "id", "type", "role", "digest", "signature", "call_id", "run_id", "file_id")),
    {"role": "assistant", "origin": KNOWN},
    {"role": "assistant", "beside": KNOWN},
    {"type": "tool_call", "beside": {"id": KNOWN}},
    {"rows": [{"signature": [KNOWN, {"data": f"a{KNOWN}b"}]}]},
    {KNOWN: 1},
]


@pytest.mark.requirement("permission.data.foreign-names")
@pytest.mark.parametrize("data", FOREIGN)
def test_names_of_fields_that_others_chose_keep_no_secret(data: dict[str, JsonValue]) -> None:
    redactor = Redactor({KNOWN: "API_KEY"})
    call = redactor.value(ToolCall(id="call_1", name="x", arguments=json.dumps(data)))
    step = redactor.output(
        ToolFinished(
            call_id="call_1",
            name="x",
            headline=Headline(verb="V", doing="D", asking="A", target=""),
            outcome="ok",
            display={"application/json": data},
            details={"more": data},
        )
    )
    assert KNOWN not in call.model_dump_json()
    assert KNOWN not in step.model_dump_json()
    assert "API_KEY" in call.arguments


def test_ids_and_hashes_in_arguments_stay_as_they_are() -> None:
    arguments = json.dumps({"id": "0f" * 16, "data": base64.b64encode(bytes(range(48))).decode(), "type": "object"})
    assert Redactor({KNOWN: "API_KEY"}).value(ToolCall(id="1", name="x", arguments=arguments)).arguments == arguments


def test_a_seal_goes_with_the_thought_it_held_for() -> None:
    kept, changed = (
        ReasoningPart(text=text, signature="seal") for text in ("No secret.", "It is password='hunter22hunter'.")
    )
    event = MessageAdded(message=AssistantMessage(parts=(kept, changed), stop_reason="stop"))
    assert [part.signature for part in Redactor().value(event).message.parts] == ["seal", None]  # type: ignore[union-attr]


def test_cells_of_a_table_are_redacted_by_the_name_of_their_column() -> None:
    table: JsonValue = {"columns": ["user", "password"], "rows": [["joe", "hunter22"], ["ann", "correct horse"]]}
    event = ToolFinished(
        call_id="1",
        name="x",
        headline=Headline(verb="V", doing="D", asking="A", target=""),
        outcome="ok",
        display={TABLE_MIME: table},
    )
    shown = Redactor().value(event).display[TABLE_MIME]
    assert shown == {
        "columns": ["user", "password"],
        "rows": [["joe", "[redacted: password, 8 characters]"], ["ann", "[redacted: password, 13 characters]"]],
    }


def test_what_a_text_names_is_known_where_nothing_names_it() -> None:
    redactor = Redactor()
    redactor("password = 'x7Gh2-kQw9'")
    assert redactor("it is x7Gh2-kQw9.") == "it is [redacted: password, 10 characters]."


@pytest.mark.attack("secrets", always=True)
def test_a_known_value_that_was_cut_off_is_redacted_all_the_same() -> None:
    redactor = Redactor({"Qx7Gh2kQw9Lm4Pz8": "A_KEY"})
    assert redactor("'Qx7Gh2kQw…") == "'[redacted: A_KEY, 9 characters]…"
    assert redactor("[… 9 characters left out …]\nw9Lm4Pz8 rest") == (
        "[… 9 characters left out …]\n[redacted: A_KEY, 8 characters] rest"
    )


def test_a_password_has_four_characters_or_more() -> None:
    assert Redactor()("password = 'ab1!'") == "password = '[redacted: password, 4 characters]'"
    assert Redactor()("password = 'a1!'") == "password = 'a1!'"


@pytest.mark.attack("secrets", always=True)
@pytest.mark.parametrize("head", [{"alg": "none"}, {"enc": "A256GCM", "zip": "DEF"}, {"typ": "JWT", "kid": "1"}])
def test_a_token_is_known_by_what_its_first_part_says(head: dict[str, str]) -> None:
    first = base64.urlsafe_b64encode(json.dumps(head).encode()).decode().rstrip("=")
    assert Redactor()(f"see {first}.abc.defg for more").startswith("see [redacted: JWT, ")
    other = base64.urlsafe_b64encode(b'{"colour":"red"}').decode().rstrip("=")
    assert "JWT" not in Redactor()(f"see {other}.abc.defg for more")


@pytest.mark.attack("secrets", always=True)
@pytest.mark.parametrize("name", ["cookie", "Cookie", "Set-Cookie", "PROXY-AUTHORIZATION"])
def test_a_header_is_redacted_to_the_end_of_its_line(name: str) -> None:
    text = Redactor()(f"{name}: theme=dark blue; id=17; seen=2 of 3\nHost: example.org")
    assert PLACEHOLDER.sub("", text) == f"{name}: \nHost: example.org"


def test_a_known_value_is_found_as_python_json_and_an_address_write_it() -> None:
    value = 'pläin words & a "quote"\\'
    redactor = Redactor({value: "NOTE"})
    for spelled in (
        value,
        repr(value),
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        quote(value, safe=""),
    ):
        assert "words" not in redactor(f"see /search?q={spelled}&page=2")


def test_exceptions_are_made_by_name_and_by_kind() -> None:
    text = "session_token = 'x7Gh2kQw9Lm4' ; api_key = 'Rb5Tn8vYc3Wd6Fj1'"
    assert Redactor(allows=lambda name: name == "session_token")(text) == (
        "session_token = 'x7Gh2kQw9Lm4' ; api_key = '[redacted: API key, 16 characters]'"
    )
    assert PLACEHOLDER.findall(Redactor(allows=lambda name: name == "API key")(text)) == [
        "[redacted: token, 12 characters]"
    ]
    assert Redactor.of({"API_KEY": "Qx7Gh2kQw9Lm4Pz8"}, allows=lambda name: name == "API_KEY").secrets == {}


def test_what_was_caught_is_counted() -> None:
    redactor = Redactor()
    redactor("password = 'hunter22' and ghp_abcdefghij0123456789abcdefghij012345")
    assert redactor.memory.caught == {"password": 1, "GitHub token": 1}


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    ("values", "text", "redacted"),
    [
        (
            ("correct-horse", "correct-horse-battery", "correct-horse-battery-staple"),
            "correct-horse-battery, correct-horse and correct-horse-battery-staple.",
            "[redacted: 1, 21 characters], [redacted: 0, 13 characters] and [redacted: 2, 28 characters].",
        ),
        (
            ("aaaa-bbbb-cccc", "cccc-dddd-eeee-ffff-gggg"),
            "aaaa-bbbb-cccc-dddd-eeee-ffff-gggg or aaaa-bbbb-cccc",
            "[redacted: 1, 34 characters] or [redacted: 0, 14 characters]",
        ),
        (
            ("aaaa-bbbb-cccc-dddd-eeee", "eeee-ffff-gggg", "gggg-hhhh-iiii-jjjj-kkkk-llll"),
            "aaaa-bbbb-cccc-dddd-eeee-ffff-gggg-hhhh-iiii-jjjj-kkkk-llll",
            "[redacted: 2, 59 characters]",
        ),
        (("aaaa-bbbb-cccc", "cccc-dddd-eeee"), "aaaa-bbbb-cccc-dddd-eeee", "[redacted: 0, 24 characters]"),
    ],
)
def test_of_secrets_that_overlap_all_is_redacted_under_the_name_of_the_longest_and_of_equal_ones_the_first(
    values: tuple[str, ...], text: str, redacted: str, order: int
) -> None:
    known = {value: str(number) for number, value in enumerate(values)}
    assert Redactor(dict(list(known.items())[::order]))(text) == redacted


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 9])
def test_the_newest_of_many_secrets_are_those_that_came_last(count: int) -> None:
    values = [f"correct-horse-{number}" for number in range(5)]
    known = KnownSecrets({value: value for value in values})
    known.add(values[0], "another name")  # known already: it is no newer for that
    newest = known.newest(count)
    assert [value for value in values if value in newest] == values[max(0, 5 - count) :]
