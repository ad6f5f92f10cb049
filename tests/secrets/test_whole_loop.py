"""30 kinds of secrets in 14 places, each with its own values: none reaches the model, the journal or the notebook.

The whole loop: a real kernel, the scripted model over HTTP, all that went over the wire and to the disk. Once more in a
kernel whose variables and copies held 10,000 other secrets before.
"""

import json
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.app.conftest import Session, running_session
from tests.attacks.collection import Attempts
from tests.kernel.matrix import WITH_PANDAS
from tests.secrets.kinds import KINDS, Planted
from tests.tiers import further
from vibe_jupyter.testing import call, say, status

pytestmark = [
    pytest.mark.xdist_group("app"),
    pytest.mark.requirement("permission.data.no-secrets"),
    pytest.mark.attack("secrets", always=True),
]

SOURCES = (
    *("variables", "containers", "columns", "attributes", "environment", "settings file", "searched file", "outputs"),
    *("pieces", "tracebacks", "last error", "git", "commands", "server error"),
)
PIECE = 8
"""Characters from which a part of a secret counts as a leak."""
CONFIG = """
[tools.bash]
permission = "always"
"""
HELPERS = """
import dataclasses, json, os, pathlib, sys, time
_all = json.loads(pathlib.Path(os.environ["PLANTED_IN"]).read_text())

@dataclasses.dataclass
class Account:
    user: str
    password: str
"""
TOKENS = """
import random, string
def _tokens(count, seed):
    rng = random.Random(seed)
    return [''.join(rng.choices(string.ascii_letters + string.digits, k=24)) for _ in range(count)]
"""
LOGS = """
import pandas as pd
logs = [pd.DataFrame({"session_token": _tokens(1_000, n), "n": range(1_000)}) for n in range(4)]
"""
"""4,000 secrets in columns."""
SERVICES = "services = {f'api_key_{n}': one for n, one in enumerate(_tokens(3_000, 'services'))}"
"""3,000 secrets in a container."""
IN_COPY = """
passwords = {f'password_{n}': one for n, one in enumerate(_tokens(3_000, 'copy'))}
len(passwords)
"""
"""3,000 secrets that code in a copy binds."""


@dataclass(frozen=True)
class Field:
    """Every secret, by where it is planted."""

    session: Session
    planted: dict[str, list[Planted]]
    attempts: Attempts = lambda _tried, _through: None

    def ask(self, prompt: str, *replies: object) -> None:
        """One prompt, answered by the scripted model; what was sent, shown and kept stays for `leaks`."""
        self.session.model.will_reply(*replies)  # pyright: ignore[reportArgumentType]
        self.session.run(prompt)

    def leaks(self, source: str) -> list[str]:
        """``kind at sink`` for each secret of a source that got out, whole or in part. Each kind is one attempt."""
        folder = self.session.folder
        logs = [path for path in (folder / "vibe").rglob("*") if path.is_file()]
        sinks = {
            "request": "\n".join(json.dumps(one.body, ensure_ascii=False) for one in self.session.model.requests),
            "notebook": "\n".join(json.dumps(one["content"], ensure_ascii=False) for one in self.session.wire.seen),
            "disk": "\n".join(path.read_text(encoding="utf-8") for path in [*logs, folder / "kernel.log"]),
        }
        found = [
            (kind.name, sink)
            for kind, one in zip(KINDS, self.planted[source], strict=True)
            for sink, text in sinks.items()
            if any(part in text for secret in one.secrets for part in _parts(secret))
        ]
        assert "[withheld: " not in sinks["request"]  # of what is withheld, nothing could leak
        self.attempts([kind.name for kind in KINDS], [kind for kind, _ in found])
        return [f"{kind} at {sink}" for kind, sink in found]


def _parts(secret: str) -> list[str]:
    """The secret, its beginning behind what all of its kind begin with, and its end."""
    middle = len(secret) // 2
    return [secret, *((secret[middle - PIECE : middle + PIECE], secret[-2 * PIECE :]) if middle > PIECE else ())]


def _name(at: int, one: Planted) -> str:
    return f"{one.name}_{at}"


@pytest.fixture(scope="module", params=["none before", further("10,000 before")])
def field(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    folder = tmp_path_factory.mktemp("kinds")
    rng = random.Random(20)
    planted = {source: [kind.make(rng) for kind in KINDS] for source in SOURCES}
    named = {source: {_name(at, one): one.text for at, one in enumerate(all_)} for source, all_ in planted.items()}
    store = tmp_path_factory.mktemp("store") / "planted.json"
    store.write_text(json.dumps(named), encoding="utf-8")
    _repository(folder, named)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLANTED_IN", str(store))
        for name, text in named["environment"].items():
            patch.setenv(name.upper(), text)
        with running_session(WITH_PANDAS, folder) as session:
            config = folder / "vibe" / "config.toml"
            config.write_text(config.read_text(encoding="utf-8") + CONFIG, encoding="utf-8")
            session.run(HELPERS)
            session.run(TOKENS)
            if request.param == "10,000 before":
                for code in (LOGS, SERVICES):
                    session.run(code)
                    session.model.will_reply(say("Seen."))
                    session.run("%vibe look")
                session.model.will_reply(call("run_code", code=IN_COPY), say("Seen."))
                session.run("%vibe look")
            yield Field(session, planted)


def _repository(folder: Path, named: dict[str, dict[str, str]]) -> None:
    def write(name: str, source: str) -> None:
        lines = [f"{key} = {text!r}\n" for key, text in named[source].items()]
        folder.joinpath(name).write_text("".join(lines), encoding="utf-8")

    write("settings.py", "settings file")
    write("searched.py", "searched file")
    folder.joinpath("start.sh").write_text(
        "".join(f"export {key.upper()}='{text}'\n" for key, text in named["commands"].items()), encoding="utf-8"
    )
    write("history.py", "git")
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(folder)]
    for words in (["init", "-q"], ["add", "history.py"], ["commit", "-qm", "Add"], ["rm", "-q", "history.py"]):
        subprocess.run([*git, *words], check=True, capture_output=True)


@pytest.fixture
def fresh(field: Field, attempts: Attempts) -> Field:
    field.session.run("%vibe reset")
    field.session.model.requests.clear()
    field.session.wire.forget()
    return replace(field, attempts=attempts)


def test_variables_are_described_without_their_secrets(fresh: Field) -> None:
    names = [_name(at, one) for at, one in enumerate(fresh.planted["variables"])]
    fresh.session.run("globals().update(_all['variables'])")
    looks = [call("inspect", names=[name]) for name in names]
    fresh.ask(f"%vibe look at {' '.join(f'@{name}' for name in names[:5])}", call("inspect"), say("."))
    fresh.ask("%vibe look again", *looks, say("Done."))
    fresh.ask(
        "%vibe --yes=run_code show",
        call("run_code", code="for _n in _all['variables']: print(globals()[_n])"),
        say("."),
    )
    assert fresh.leaks("variables") == []
    fresh.session.run("for _n in _all['variables']: del globals()[_n]")


def test_containers_and_attributes_are(fresh: Field) -> None:
    fresh.session.run(
        "services = {'first': _all['containers'], 'all': [{n: t} for n, t in _all['containers'].items()]}"
    )
    fresh.session.run("accounts = [Account('joe', t) for t in _all['attributes'].values()]")
    code = "print(services)\nprint(json.dumps(services, indent=1))\nprint(accounts)\naccounts"
    looks = [call("inspect", names=[name]) for name in ("services", "accounts")]
    fresh.ask("%vibe --yes=run_code look at @services", *looks, call("run_code", code=code), say("Done."))
    assert fresh.leaks("containers") == []
    assert fresh.leaks("attributes") == []
    fresh.session.run("del services, accounts")


def test_columns_of_frames_are(fresh: Field) -> None:
    fresh.session.run("import pandas as pd\nframe = pd.DataFrame({n: [t, t] for n, t in _all['columns'].items()})")
    looks = call(
        "inspect", names=["frame"], columns=[_name(at, one) for at, one in enumerate(fresh.planted["columns"])]
    )
    code = "print(frame.T)\nprint(frame.iloc[:, :3])\nprint(frame.to_csv(index=False))\nframe.head()"
    fresh.ask("%vibe --yes=run_code look at @frame", looks, call("run_code", code=code), say("Done."))
    assert fresh.leaks("columns") == []
    fresh.session.run("del frame")


def test_the_environment_is_printed_without_them(fresh: Field) -> None:
    code = "print(dict(os.environ))\nfor n, v in os.environ.items(): print(f'{n}={v}')"
    fresh.ask("%vibe --yes=run_code look", call("run_code", code=code), call("bash", command="env"), say("Done."))
    assert fresh.leaks("environment") == []


def test_files_and_what_is_found_in_them_are(fresh: Field) -> None:
    read = [call("read_file", path="settings.py"), call("read_file", path="settings.py", offset=10, limit=9)]
    found = [call("grep", pattern=one.name, path="searched.py") for one in fresh.planted["searched file"]]
    fresh.ask("%vibe look at @settings.py", *read, say("."))
    fresh.ask("%vibe look at the other", *found, say("Done."))
    assert fresh.leaks("settings file") == []
    assert fresh.leaks("searched file") == []


def test_outputs_and_tracebacks_are(fresh: Field) -> None:
    shown = (
        "for n, t in _all['outputs'].items(): print(f'{n} = {t!r}'); print(f'no: {n}={t}')\n{'all': _all['outputs']}"
    )
    raised = "raise ValueError('\\n'.join(f'cannot connect with {n}={t}' for n, t in _all['tracebacks'].items()))"
    fresh.ask("%vibe --yes=run_code do", call("run_code", code=shown), call("run_code", code=raised), say("Done."))
    assert fresh.leaks("outputs") == []
    assert fresh.leaks("tracebacks") == []


def test_output_that_comes_in_pieces_is_shown_without_them(fresh: Field) -> None:
    code = (
        "for n, t in _all['pieces'].items():\n"
        "    text = f'{n} = {t!r}\\n'\n"
        "    for at in range(0, len(text), 7):\n"
        "        print(text[at:at + 7], end='', flush=True)\n"
        "    time.sleep(0.01)"
    )
    fresh.ask("%vibe --yes=run_code do", call("run_code", code=code), say("Done."))
    assert fresh.leaks("pieces") == []


def test_words_that_code_has_just_bound_among_thousands_of_variables_are_not_shown_in_pieces(fresh: Field) -> None:
    code = (
        "words = 'river', 'table', 'candle', 'window'\n"
        "for n in range(50): print(n, flush=True)\n"
        "passphrase = ' '.join(words[::-1])\n"
        "for part in re.findall('.{1,3}', passphrase): print(part, end='', flush=True)\n"
        "print(' end', flush=True)\n"
        "time.sleep(1)"
    )
    fresh.session.run("import re\nglobals().update({f'value_{n}': [f'text {n}'] for n in range(4000)})")
    fresh.ask("%vibe --yes=run_code do", call("run_code", code=code), say("Done."))
    fresh.session.run("for n in range(4000): del globals()[f'value_{n}']")
    shown = "\n".join(json.dumps(one["content"], ensure_ascii=False) for one in fresh.session.wire.seen)
    sent = "\n".join(json.dumps(one.body, ensure_ascii=False) for one in fresh.session.model.requests)
    assert "[redacted: password, 25 characters] end" in sent
    for text in (shown, sent):
        assert [words for words in ("window candle", "candle table", "table river") if words in text] == []


def test_the_last_error_is_told_without_them(fresh: Field) -> None:
    code = (
        "def connect(settings):\n"
        "    for name, text in settings.items():\n"
        "        locals()[name] = text\n"
        "    raise ConnectionError('; '.join(f'{n}={t!r}' for n, t in settings.items()))\n"
        "connect(_all['last error'])"
    )
    fresh.session.wire.cell(fresh.session.wire.send(code))
    fresh.session.wire.forget()
    fresh.ask("%vibe fix", say("Done."))
    assert fresh.leaks("last error") == []


def test_commands_and_git_print_none(fresh: Field) -> None:
    commands = [
        call("bash", command=command) for command in ("cat start.sh", "head -c 3000 start.sh", "tail -n 12 start.sh")
    ]
    git = [call("bash", command=command) for command in ("git log -p", "git show HEAD:history.py")]
    fresh.ask("%vibe look", *commands, *git, say("Done."))
    assert fresh.leaks("commands") == []
    assert fresh.leaks("git") == []


def test_a_server_that_repeats_them_has_them_shown_nowhere(fresh: Field) -> None:
    named = [f"{_name(at, one)}={one.text}" for at, one in enumerate(fresh.planted["server error"])]
    for at in range(0, len(named), 3):
        fresh.ask("%vibe hello", status(400, "cannot use " + "; ".join(named[at : at + 3])))
    fresh.ask("%vibe hello", say("Your settings:\n" + "\n".join(named)))
    assert fresh.leaks("server error") == []


PHRASE = "river candle"
"""What the code below makes without writing it down."""
CONNECT = """
class Connection:
    def __init__(self, password):
        self.password = password
connection = Connection(' '.join(['candle', 'river'][::-1]))
"""
SHOW = """
for value in vars(connection).values():
    print('it is', value, flush=True)
print('it was', *vars(connection).values())
"""


def _phrase_is_redacted(fresh: Field) -> None:
    """Have code print the value of an object's password, which neither a name nor its look tells."""
    fresh.session.run(CONNECT)
    fresh.session.wire.forget()
    fresh.ask("%vibe --yes=run_code show", call("run_code", code=SHOW), say("Done."))
    fresh.session.run("del connection, Connection")
    sent = json.dumps(fresh.session.model.requests[-1].body)
    shown = "\n".join(json.dumps(one["content"]) for one in fresh.session.wire.seen)
    kept = "\n".join(path.read_text("utf-8") for path in (fresh.session.folder / "vibe").rglob("*") if path.is_file())
    assert [PHRASE in text for text in (sent, shown, kept)] == [False] * 3
    for word in ("is", "was"):
        assert f"it {word} [redacted: password, {len(PHRASE)} characters]" in sent
    assert "[withheld: " not in sent


@pytest.mark.requirement("permission.data.budgets")
def test_a_password_is_redacted_after_four_frames_of_a_thousand_tokens_each(fresh: Field) -> None:
    fresh.session.run(LOGS)
    fresh.ask("%vibe look", say("Seen."))
    _phrase_is_redacted(fresh)
    fresh.session.run("del logs")


@pytest.mark.requirement("permission.data.budgets.told")
def test_a_source_that_is_too_large_is_named_to_the_user_once(fresh: Field) -> None:
    fresh.session.run("api_tokens = _tokens(41_000, 'many')")
    shown: list[str] = []
    for _ in range(2):
        fresh.session.model.will_reply(call("run_code", code="print(len(api_tokens))"), say("Seen."))
        shown.append(fresh.session.html(fresh.session.run("%vibe --yes=run_code look")))
    fresh.session.run("del api_tokens")
    assert ["are remembered as secrets" in one for one in shown] == [True, False]
    assert "api_tokens" in shown[0]


@pytest.mark.requirement("permission.data.copies-forget")
def test_a_password_is_redacted_after_code_in_a_copy_bound_25_000_others(fresh: Field) -> None:
    code = "import pandas as pd\nframe = pd.DataFrame({'session_token': _tokens(25_000, 'frame')})\nlen(frame)"
    fresh.ask("%vibe look", call("run_code", code=code), say("Seen."))
    fresh.session.run("assert 'frame' not in globals()")  # it ran in a copy
    fresh.session.model.requests.clear()
    fresh.session.run("%vibe reset")
    _phrase_is_redacted(fresh)


@pytest.mark.requirement("permission.data.copies-forget")
@pytest.mark.parametrize("word", ["DataFrame", "dragonfly"])
def test_a_word_that_is_a_password_in_a_copy_is_left_alone_afterwards(fresh: Field, word: str) -> None:
    code = f"password = '{word}'\nprint('in the copy', password)"
    fresh.ask("%vibe look", call("run_code", code=code), say("Seen."))
    fresh.session.run("assert 'password' not in globals()")  # it ran in a copy
    assert "in the copy" in json.dumps(fresh.session.model.requests[-1].body)
    fresh.session.model.requests.clear()
    sentence = f"A {word} has wings."
    code = f"print('A', '{word}', 'has wings.')"
    fresh.ask("%vibe --yes=run_code do", call("run_code", code=code), say(f"{sentence} So it is."))
    assert json.dumps(fresh.session.model.requests[-1].body["messages"][-1]).count(sentence) == 1
    assert f"{sentence} So it is." in "\n".join(json.dumps(one["content"]) for one in fresh.session.wire.seen)
