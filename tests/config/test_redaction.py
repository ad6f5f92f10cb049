"""What counts as a secret, and that it is redacted wherever it occurs."""

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.drawn_values import PATIENT
from vibe_jupyter.permissions.ordinary_words import is_ordinary_word
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.permissions.secret_shapes import is_secret_name
from vibe_jupyter.protocol import MessageAdded, TextPart, ToolFinished, ToolMessage
from vibe_jupyter.protocol.tools import Headline

SECRETS = st.text(st.characters(exclude_categories=["Cs", "Zs", "Cc"]), min_size=8, max_size=30)


def struck(**environ: str) -> dict[str, str]:
    return dict(Redactor.of(environ).secrets)


def test_names_tell_what_holds_a_secret() -> None:
    names = ["OPENAI_API_KEY", "github_token", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "SMTP_PASSWD", "MY_CREDENTIALS"]
    assert [name for name in names if not is_secret_name(name)] == []
    assert [name for name in ("PATH", "HOME", "LANG", "USER", "VIBE_HOME") if is_secret_name(name)] == []


def test_words_paths_numbers_and_short_values_are_no_secrets_but_a_password_may_be_a_word() -> None:
    assert struck(SECRET_NAME="production", SSL_KEY_FILE="/etc/ssl/key.pem", MAX_TOKENS="100000000") == {}
    assert struck(TOKEN_URL="https://example.org/oauth2", A_KEY="short", B_KEY="", KEY_PATH="~/.ssh/id_rsa") == {}
    assert struck(DB_PASSWORD="correcthorse") == {"correcthorse": "DB_PASSWORD"}


def test_a_variable_that_the_settings_name_counts_whatever_it_is_called() -> None:
    redactor = Redactor.of({"OFFICE": "productionkey"}, ["OFFICE", "NOT_SET"])
    assert redactor("Bearer productionkey.") == "Bearer [redacted: OFFICE, 13 characters]."


def test_of_two_that_begin_alike_the_longer_goes_first() -> None:
    redactor = Redactor.of({"A_KEY": "abcdefgh-1", "B_KEY": "abcdefgh-1-and-more"})
    assert (
        redactor("abcdefgh-1-and-more abcdefgh-1")
        == "[redacted: B_KEY, 19 characters] [redacted: A_KEY, 10 characters]"
    )


@PATIENT
@given(SECRETS, st.text(max_size=20), st.text(max_size=20))
def test_no_event_holds_one_afterwards(secret: str, before: str, after: str) -> None:
    assume(not is_ordinary_word(secret.strip()))
    redactor = Redactor.of({"A": secret}, ["A"])
    text = f"{before}{secret}{after}"
    message = ToolMessage(call_id="1", name="x", parts=(TextPart(text=text),))
    event = MessageAdded(message=message)
    assert secret.strip() not in redactor.value(event).model_dump_json() or secret.strip() in "[redacted: A]"
    headline = Headline(verb="V", doing="D", asking="A", target=text)
    finished = ToolFinished(
        call_id="1", name="x", headline=headline, outcome="ok", display={"text/plain": text}, details={"a": [text]}
    )
    clean = redactor.value(finished)
    assert clean.headline.target == clean.display["text/plain"] == redactor(text)
    assert clean.details == {"a": [redactor(text)]}


@PATIENT
@given(st.text(max_size=50))
def test_what_holds_none_is_the_very_same(text: str) -> None:
    redactor = Redactor.of({"A_KEY": "\x00 not in any text \x00"})
    event = MessageAdded(message=ToolMessage(call_id="1", name="x", parts=(TextPart(text=text),)))
    assert redactor.value(event) is event
