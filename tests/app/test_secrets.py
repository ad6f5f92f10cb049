"""Twelve planted keys, in the environment, in `.env`, in variables, files and outputs: none leaves by our own doing."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from vibe_jupyter.testing import call, say, status

pytestmark = pytest.mark.xdist_group("app")

IN_ENVIRONMENT = {
    "OPENAI_API_KEY": "sk-planted-01-aaaaaaaaaaaa",
    "AWS_SECRET_ACCESS_KEY": 'planted/02+"quoted"\\back',
    "GITHUB_TOKEN": "ghp_planted03cccccccccccc",
    "DB_PASSWORD": "plantedfourdddd",
    "MY_CREDENTIALS": "planted-05-eeeeeeeeeeee",
    "HF_TOKEN": "hf_planted06ffffffffffff",
    "OFFICE": "planted-07-by-its-entry-only",
    "SLACK_BOT_TOKEN": "xoxb-planted-08-hhhhhhhh",
}
IN_ENV_FILE = {
    "SCRIPTED": "planted-09-key-of-the-server",
    "MISTRAL_API_KEY": "planted-10-jjjjjjjjjjjj",
    "ANTHROPIC_API_KEY": "planted-11-kkkkkkkkkkkk",
    "SMTP_PASSWORD": "planted-12-with-ünïcode",
}
PLANTED = IN_ENVIRONMENT | IN_ENV_FILE
CONFIG = """\
active_model = "scripted"

[[providers]]
name = "scripted"
api_base = "{url}"
api_key_env_var = "SCRIPTED"

[[providers]]
name = "office"
api_base = "https://models.example.org/v1"
api_key_env_var = "OFFICE"

[[models]]
name = "scripted-1"
provider = "scripted"
alias = "scripted"

[tools.bash]
permission = "always"
"""


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("secrets")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in IN_ENVIRONMENT.items():
            patch.setenv(name, value)
        with running_session(INSTALLED, folder) as session:
            home = folder / "vibe"
            home.joinpath("config.toml").write_text(CONFIG.format(url=session.model.url), encoding="utf-8")
            lines = [f"{name}='{value}'\n" for name, value in IN_ENV_FILE.items()]
            home.joinpath(".env").write_text("".join(lines), encoding="utf-8")
            yield session


@pytest.fixture
def session(leaky: Session) -> Session:
    leaky.run("%vibe reset")
    leaky.model.requests.clear()
    leaky.wire.forget()
    return leaky


def leaks(text: str) -> list[str]:
    """The names of the keys that stand in a text: plain, as Python or JSON writes them, or as JSON of that."""
    forms = {value: name for name, value in PLANTED.items()}
    for _ in range(2):
        forms |= {repr(value)[1:-1]: name for value, name in forms.items()}
        forms |= {json.dumps(value)[1:-1]: name for value, name in forms.items()}
        forms |= {json.dumps(value, ensure_ascii=False)[1:-1]: name for value, name in forms.items()}
    return sorted({name for value, name in forms.items() if value in text})


def sent(session: Session) -> str:
    """Every body that went to the server."""
    return "\n".join(json.dumps(request.body, ensure_ascii=False) for request in session.model.requests)


def shown(session: Session) -> str:
    """All that the page was sent, the state of widgets too."""
    return "\n".join(json.dumps(message["content"], ensure_ascii=False) for message in session.wire.seen)


def kept(folder: Path) -> str:
    """All that was written below the user's folder, but for `.env` itself, and the kernel's own log."""
    files = [path for path in (folder / "vibe").rglob("*") if path.is_file() and path.name != ".env"]
    return "\n".join(path.read_text(encoding="utf-8") for path in [*files, folder / "kernel.log"])


@pytest.mark.requirement("permission.data.no-secrets")
def test_nothing_the_model_looks_at_without_being_asked_carries_a_key(session: Session) -> None:
    (session.folder / "settings.py").write_text(repr(PLANTED) + "\n", encoding="utf-8")
    session.run(f"planted = {PLANTED!r}\nkeys = list(planted.values())\nfirst = keys[0]\nmany = {{'a': keys}}")
    session.model.will_reply(
        call("inspect"),
        call("inspect", names=["planted"]),
        call("inspect", names=["first"]),
        call("read_file", path="settings.py"),
        call("grep", pattern="planted"),
        say("Done."),
    )
    session.wire.forget()
    session.run("%vibe look at @planted and @first and @settings.py")
    assert len(session.model.requests) == 6
    assert leaks(sent(session)) == []
    assert leaks(shown(session)) == []
    assert leaks(kept(session.folder)) == []
    assert re.search(r"\[redacted: (OPENAI_API_KEY|API key), 26 characters\]", sent(session))


@pytest.mark.requirement("permission.data.no-secrets")
def test_outputs_and_commands_carry_none_to_the_model_or_the_journal(session: Session) -> None:
    code = "import os\nprint(dict(os.environ))\nraise ValueError(os.environ['GITHUB_TOKEN'])"
    session.model.will_reply(call("run_code", code=code), call("bash", command="env"), say("Done."))
    session.run("%vibe --yes=run_code look")
    assert leaks(sent(session)) == []
    assert leaks(kept(session.folder)) == []
    assert leaks(shown(session)) == []
    environment = session.model.requests[2].messages[-1]["content"]
    assert "PATH=" in environment
    assert "redacted" not in environment


@pytest.mark.requirement("permission.data.no-secrets")
@pytest.mark.parametrize("code", [400, 401, 429, 500])
def test_a_server_that_repeats_the_key_has_it_shown_nowhere(session: Session, code: int) -> None:
    body = f"cannot use Authorization: Bearer {PLANTED['SCRIPTED']} nor {PLANTED['GITHUB_TOKEN']}"
    session.model.will_reply(*[status(code, body)] * 3)
    session.run("%vibe hello")
    assert session.model.requests
    assert session.model.requests[0].headers["authorization"] == f"Bearer {PLANTED['SCRIPTED']}"
    assert leaks(sent(session)) == []
    assert leaks(shown(session)) == []
    assert leaks(kept(session.folder)) == []


def test_the_settings_are_listed_without_them(session: Session) -> None:
    text = session.run("%vibe config").text + session.run("%vibe status").text
    assert leaks(text) == []
    assert 'providers.scripted.api_key_env_var = "SCRIPTED" (set)' in text


def test_keys_of_the_env_file_enter_no_environment(session: Session) -> None:
    text = session.run("import os, subprocess\nprint(dict(os.environ), subprocess.getoutput('env'))").text
    assert [name for name in IN_ENV_FILE if IN_ENV_FILE[name] in text] == []
