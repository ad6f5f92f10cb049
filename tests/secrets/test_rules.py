"""Rules as data: those that ship with the package, and the user's own."""

import random
import re
import time
from pathlib import Path

import pytest

from tests.patience import patient
from tests.secrets.kinds import ALNUM, text_of
from tests.secrets.spellings import HARMLESS
from vibe_jupyter.config import load_settings
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.permissions.own_rules import SECONDS, OwnRules
from vibe_jupyter.permissions.redaction import RedactedStream, Redactor
from vibe_jupyter.permissions.secret_assignments import HINTS
from vibe_jupyter.permissions.secret_shapes import RULES_FILE, UNCHECKED, OwnRule, secret_rules
from vibe_jupyter.permissions.secret_sources import Memory

TICKET = """
[[privacy.rules]]
id = "acme-ticket"
description = "ticket of Acme"
regex = 'TCK [A-Z]{4}-\\d{6}'
keywords = ["tck"]
"""
TICKET_TEXT = "see TCK QRST-123456, and TCK NONE\n"


def own(*rules: dict[str, object]) -> Redactor:
    """A redactor with these rules of the user's."""
    memory = Memory()
    memory.own = OwnRules([OwnRule.model_validate(rule) for rule in rules])
    return Redactor(memory=memory)


def ticket(**changes: object) -> dict[str, object]:
    return {"id": "acme", "regex": r"TCK [A-Z]{4}-\d{6}", "keywords": ("tck",), "description": "ticket", **changes}


def test_every_shipped_rule_compiles_is_named_once_and_has_its_group() -> None:
    rules = secret_rules()
    ids = [rule.id for rule in (*rules.rules, *rules.assignments)]
    assert sorted(set(ids)) == sorted(ids)
    for rule in rules.rules:
        assert rule.pattern.groups >= rule.secretGroup, rule.id
        assert all(rule.keywords), rule.id
    for assignment in rules.assignments:
        assert set(assignment.pattern.groupindex) <= {"name", "value"}, assignment.id


def test_a_rule_for_keys_begins_with_each_of_its_keywords() -> None:
    for rule in secret_rules().rules:
        for keyword in rule.keywords if rule.check == "key" else ():
            key = keyword + "0" * 40
            assert rule.pattern.match(key), (rule.id, keyword)
            assert key not in Redactor()(f"it is {key} here"), (rule.id, keyword)


def test_each_part_of_a_name_that_marks_a_secret_is_a_hint_for_the_first_look() -> None:
    names = secret_rules().names
    for word in (*names.password, *names.password_inside, *names.strong, *names.strong_inside, *names.weak):
        assert any(hint in word for hint in HINTS), word


@pytest.mark.requirement("permission.data.rules.shipped")
@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ('id = "github-token"\n', 'id = "github-token"\nsecretGroup = "one"\n', "rule github-token: secretGroup: "),
        ('id = "github-token"\n', 'id = "github-token"\nentropie = 3\n', "rule github-token: entropie: "),
        ('id = "sql"\n', 'id = "sql"\nbare = 7\n', "rule sql: bare: "),
        ('id = "jwt"\n', "", "rule without an id: id: "),
        ("password_last = [", "password_end = [", "names.password_last: "),
        ("[names]", "[names", "line "),
    ],
)
def test_a_mistake_in_the_file_is_named_with_file_rule_and_key(
    tmp_path: Path, was: str, becomes: str, said: str
) -> None:
    text = RULES_FILE.read_text(encoding="utf-8")
    assert was in text
    broken = tmp_path / "rules.toml"
    broken.write_text(text.replace(was, becomes, 1), encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        secret_rules(broken)
    assert str(broken) in str(raised.value)
    assert said in str(raised.value)
    assert "Correct the file or reinstall vibe-jupyter" in str(raised.value)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The user's folder."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def settings_of(home: Path, text: str) -> OwnRules:
    (home / "config.toml").write_text(text, encoding="utf-8")
    return OwnRules(load_settings({"VIBE_HOME": str(home)}).privacy.rules)


@pytest.mark.requirement("permission.data.rules.own")
def test_a_rule_in_the_users_settings_redacts_and_the_rest_goes_on(home: Path) -> None:
    memory = Memory()
    memory.own = settings_of(home, TICKET)
    redacted = Redactor(memory=memory)(f"{TICKET_TEXT}password = 'hunter22'\n")
    assert redacted == (
        "see [redacted: ticket of Acme, 15 characters], and TCK NONE\npassword = '[redacted: password, 8 characters]'\n"
    )


@pytest.mark.requirement("permission.data.rules.own")
@pytest.mark.parametrize(
    ("line", "key", "problem"),
    [
        ("regex = 'TCK ('", "regex", "Python doesn't accept this regular expression: missing )"),
        ("regex = 'TCK [[:alpha:]]{9}'", "regex", "[A-Za-z0-9]"),
        ("regex = '(TCK)*'", "regex", "fewer than 4 characters"),
        ("regex = ''", "regex", "fewer than 4 characters"),
        ("regex = '.{4,}'", "regex", "matches any text"),
        ("regex = '(?s).+....'", "regex", "matches any text"),
        ("regex = '(T+)+CKET'", "regex", "could take too long"),
        ("regex = 'TCK(?:a|a)*b'", "regex", "could take too long"),
        ("regex = 'TCK.*a.*b.*c'", "regex", "could take too long"),
        (r"regex = '([;,])TCK-\d{6}\1'", "regex", r"back references such as \1 are not supported in rules"),
        (r"regex = '(;)?TCK-\d{6}(?(1);|,)'", "regex", "conditions such as (?(1)…) are not supported in rules"),
        (r"regex = '\S.{3,}'", "regex", "matches any text; make it specific to the secret"),
        ("keywords = []", "keywords", "write at least one keyword"),
        ('keywords = ["tk"]', "keywords", "3 characters or more"),
        ('keywords = ["my key"]', "keywords", "without blanks"),
        ("secretGroup = 1", "secretGroup", "no such group"),
        ("allowlist = { regexes = ['.*a.*'] }", "allowlist.regexes", "could take too long"),
    ],
)
def test_a_rule_that_is_none_is_refused_with_file_rule_key_and_reason(
    home: Path, line: str, key: str, problem: str
) -> None:
    name = line.partition(" ")[0]
    rest = [one for one in TICKET.splitlines() if not one.startswith(f"{name} ")]
    began = time.monotonic()
    with pytest.raises(ConfigError) as raised:
        settings_of(home, "\n".join([*rest, line]))
    assert time.monotonic() - began < patient(2)
    said = str(raised.value)
    assert "config.toml" in said
    assert f"privacy.rules.acme-ticket.{key}" in said
    assert problem in said
    assert said.endswith("Fix it, then try again.")


def test_rules_as_gitleaks_publishes_them_are_accepted(home: Path) -> None:
    generic = (
        r"""[\w.-]{0,50}?(?:acme)(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}"""
        r"""([a-z0-9]{32})(?:[\x60'"\s;]|\\[nr]|$)"""
    )
    rules = settings_of(
        home,
        f"""[[privacy.rules]]
id = "acme-api-key"
description = "Acme API key"
regex = '''{generic}'''
keywords = ["acme"]
secretGroup = 1
entropy = 3
allowlist = {{ stopwords = ["example"], regexes = ['^0{{6}}'] }}
""",
    )
    value = text_of(random.Random(1), "abcdefghijklmnopqrstuvwxyz0123456789", 32)
    texts = [f"my_acme_cfg = '{one}'" for one in (value, "ab" * 16, f"example{value[7:]}", f"000000{value[6:]}")]
    found = [[text[span.start : span.end] for span in rules.spans(text)] for text in texts]
    assert found == [[value], [], [], []]


@pytest.mark.requirement("permission.data.rules.own")
def test_a_project_cannot_contribute_a_rule_or_take_one_away(home: Path, tmp_path: Path) -> None:
    from vibe_jupyter.app.project import KernelSettings

    (home / "config.toml").write_text(TICKET, encoding="utf-8")
    folder = tmp_path / "project"
    (folder / ".vibe").mkdir(parents=True)
    theirs = TICKET.replace("acme-ticket", "theirs")
    (folder / ".vibe" / "config.toml").write_text(theirs + "[tools.bash]\npermission = 'always'\n", encoding="utf-8")
    setup = KernelSettings(folder, {"VIBE_HOME": str(home)})
    question = setup.project.look().question
    assert question is not None
    assert "theirs" not in str(question.brings)
    for trusted in (False, True):
        setup.project.answer(question, trusted=trusted)
        current = setup.current()
        assert [rule.id for rule in current.reading.settings.privacy.rules] == ["acme-ticket"]
        assert setup.strike()(TICKET_TEXT).startswith("see [redacted: ticket of Acme, ")
        assert "by your own rules: acme-ticket\n" in setup.redaction(current.reading.settings)


@pytest.mark.requirement("permission.data.rules.own")
def test_rules_apply_from_the_prompt_after_a_change_and_a_broken_change_leaves_the_last_ones(
    home: Path, tmp_path: Path
) -> None:
    from vibe_jupyter.app.project import KernelSettings

    setup = KernelSettings(tmp_path, {"VIBE_HOME": str(home)})
    redactor = setup.redactor(setup.settings(), {}, ())
    assert redactor(TICKET_TEXT) == TICKET_TEXT
    (home / "config.toml").write_text(TICKET, encoding="utf-8")
    setup.settings()
    assert "QRST" not in redactor(TICKET_TEXT)
    (home / "config.toml").write_text(TICKET.replace("TCK [", "TCK (["), encoding="utf-8")
    with pytest.raises(ConfigError):
        setup.settings()
    assert "QRST" not in redactor(f"{TICKET_TEXT} password = 'hunter22'")
    assert "hunter22" not in redactor(f"{TICKET_TEXT} password = 'hunter22'")


@pytest.mark.attack("secrets", always=True)
@pytest.mark.requirement("permission.data.rules.own")
def test_what_an_own_rule_finds_is_shown_in_no_piece_of_a_stream() -> None:
    text = f"begin\n{TICKET_TEXT}and id=XTCK ABCD-654321 at the end"
    whole = own(ticket(regex=r"X?TCK [A-Z]{4}-\d{6}"))(text)
    assert "QRST" not in whole
    assert "654321" not in whole
    for size in range(1, 40):
        stream = RedactedStream(own(ticket(regex=r"X?TCK [A-Z]{4}-\d{6}")), of_output=size % 2 == 0)
        shown = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.end()
        assert "QRST" not in shown
        assert "654321" not in shown
        assert shown.count("[redacted: ticket, ") == 2


def test_a_match_begins_in_the_word_of_a_keyword_and_ends_on_its_line() -> None:
    redactor = own(ticket(regex=r"\d{4,8}\s?tck\s?\d{4,8}"))
    assert redactor("1234tck 5678") == "[redacted: ticket, 12 characters]"
    assert redactor("1234 tck 5678") == "1234 tck 5678"
    assert redactor("1234tck\n5678") == "1234tck\n5678"


def test_a_group_that_took_no_part_leaves_the_whole_match() -> None:
    rule = ticket(regex=r"TCK (?:NONE|([A-Z]{4}-\d{6}))", secretGroup=1)
    assert own(rule)(TICKET_TEXT) == (
        "see TCK [redacted: ticket, 11 characters], and [redacted: ticket, 8 characters]\n"
    )


def test_own_rules_obey_the_exceptions_and_leave_other_texts_alone() -> None:
    rules = own(ticket())
    assert [text for text in HARMLESS if rules(text) != Redactor()(text)] == []
    memory = Memory()
    memory.own = OwnRules([OwnRule.model_validate(ticket())])
    assert Redactor(memory=memory, allows=lambda name: name == "ticket")(TICKET_TEXT) == TICKET_TEXT


@pytest.mark.attack("secrets", always=True)
@pytest.mark.requirement("permission.data.rules.time")
def test_a_text_that_makes_a_rule_slow_is_redacted_in_bounded_time_and_shows_nothing() -> None:
    rules = OwnRules([OwnRule.model_validate(ticket(regex=r"tck(?:a|aa){1,17}[bc]"))])
    text = "begin\n" + ("tck" + "a" * 60 + "\n") * 3_000 + "[redacted: one, 3 characters] tckaaab\nend"
    began = time.thread_time()
    (span,) = rules.spans(text)
    assert time.thread_time() - began < SECONDS + patient(1)
    assert span[1:] == (len(text), UNCHECKED, "")
    shown = Redactor(memory=_with(rules), allows=lambda kind: kind == "ticket")(text)
    assert re.fullmatch(rf"begin\n(tcka+\n)*\[redacted: {UNCHECKED}, [\d,]+ characters\]", shown)


@pytest.mark.attack("secrets", always=True)
@pytest.mark.requirement("permission.data.rules.time")
def test_keywords_everywhere_are_looked_at_in_bounded_time_and_what_is_left_is_redacted() -> None:
    for text in ("tck" * 250_000, "id tck 1\n" * 100_000, "tck " * 100_000):
        for count in (1, 5):
            rules = OwnRules([OwnRule.model_validate(ticket(id=f"{one}")) for one in range(count)])
            began = time.thread_time()
            spans = list(rules.spans(text))
            assert time.thread_time() - began < SECONDS + patient(1)
            assert [span.end for span in spans] in ([], [len(text)])


@pytest.mark.requirement("permission.data.rules.time")
def test_rules_that_got_no_time_redact_from_their_own_first_keyword() -> None:
    slow, late, absent = (
        OwnRule.model_validate(ticket(id=word, regex=rf"{word}(?:a|aa){{1,17}}[bc]", keywords=(word,)))
        for word in ("slow", "late", "none")
    )
    text = "begin, is Xlateab\n" + ("slow" + "a" * 60 + "\n") * 3_000
    assert [text[: span.start] for span in OwnRules([slow, late]).spans(text)] == ["begin, is "]
    (only,) = OwnRules([slow, absent]).spans(text)
    assert "Xlateab\nslow" in text[: only.start]


@pytest.mark.attack("secrets", always=True)
@pytest.mark.requirement("permission.data.rules.time")
def test_a_streamed_line_of_keywords_is_held_for_a_bounded_length_and_redacted_to_its_end() -> None:
    line = "see " + "tck" * 3_000 + " TCK ABCD-654321 and on "
    for size in (8, 700, 20_000):
        stream = RedactedStream(own(ticket()))
        began = time.thread_time()
        shown = "".join(stream.feed(line[at : at + size]) for at in range(0, len(line), size))
        assert shown == "see "
        shown += stream.feed("TCK ABCD-6") + stream.feed("54321\nnext ") + stream.feed("line\n") + stream.end()
        assert time.thread_time() - began < patient(3)
        hidden = len(line) - len("see ") + len("TCK ABCD-654321")
        assert shown == f"see [redacted: {UNCHECKED}, {hidden:,} characters]\nnext line\n"
    ends = RedactedStream(own(ticket()))
    assert ends.feed(line) + ends.end() == f"see [redacted: {UNCHECKED}, {len(line) - 4:,} characters]"


def test_no_cut_of_a_stream_splits_a_place_that_overlaps_the_one_it_was_moved_for() -> None:
    rule = ticket(regex=r"TCK [A-Z]{4}.{0,990}\d{6}")
    text = "TCK ABCD" + " no" * 100 + " tck" + " no" * 110 + " tck 654321 " + "no " * 300
    shown = own(rule)(text)
    assert "ABCD" not in shown
    for size in (7, 100):
        stream = RedactedStream(own(rule))
        pieces = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size))
        assert pieces + stream.end() == shown
    rules = OwnRules([OwnRule.model_validate(rule)])
    assert rules.before(text, 700) == rules.before(text, 400) == 0


def test_a_variable_with_a_rule_names_the_keys_that_are_missing_or_wrong(home: Path) -> None:
    for written, said in (
        ('[{"id":"x"}]', "VIBE_PRIVACY__RULES is wrong: regex and keywords are required but missing."),
        ('[{"id":"x","regex":"abcd","keywords":[]}]', "VIBE_PRIVACY__RULES is wrong: keywords: write at least one"),
    ):
        with pytest.raises(ConfigError) as raised:
            load_settings({"VIBE_HOME": str(home), "VIBE_PRIVACY__RULES": written})
        assert said in str(raised.value)


def _with(rules: OwnRules) -> Memory:
    memory = Memory()
    memory.own = rules
    return memory


def test_the_slowest_rule_that_is_accepted_takes_a_fraction_of_a_second_at_one_place() -> None:
    for regex in (r"tck(?:a|aa){1,17}c", r"tck(?:(?:a|a)(?:a|a)){1,8}c", r"tck.*x.*y", r"tck[\w.]+\.a[\w.]+:"):
        rule = OwnRule.model_validate(ticket(regex=regex))
        for sign in ("a", "x", "y", "a.", ".a", text_of(random.Random(1), ALNUM, 90)):
            began = time.thread_time()
            list(OwnRules([rule]).spans("tck" + sign * 1_000))
            assert time.thread_time() - began < patient(0.5)
