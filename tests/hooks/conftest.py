"""What these tests have in common: kernels that cost little, and a session whose user has hooks."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED


@pytest.fixture(autouse=True)
def _kernels(forked_kernels: None) -> None:
    pass


@pytest.fixture(scope="module")
def shared_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("session")) as session:
        yield session


@pytest.fixture
def session(shared_session: Session) -> Iterator[Session]:
    """A kernel that the tests of a module share; the conversation is new, and no hooks are left."""
    shared_session.run("%vibe reset")
    shared_session.model.requests.clear()
    yield shared_session
    for path in (shared_session.folder / "vibe").glob("hooks.*"):
        path.unlink()


def hook(command: str, kind: str = "pre_tool", match: str = "*", **more: object) -> str:
    """An entry of ``hooks.toml``."""
    fields = {"name": "guard", "type": kind, "match": match, "command": command, **more}
    return "[[hooks]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items())


def answering(answer: object) -> str:
    """A command that reads nothing and answers this."""
    return f"printf %s '{json.dumps(answer)}'"


def python_hook(code: str) -> str:
    """A command that reads `said` and answers the `answer` that the code makes of it."""
    return f"python3 -c '\nimport json, sys\nsaid = json.load(sys.stdin)\n{code}\nprint(json.dumps(answer))'"


def results(session: Session) -> list[str]:
    """What the model was told of its calls."""
    told = [message["content"] for message in session.model.requests[-1].messages if message["role"] == "tool"]
    return [text if isinstance(text, str) else "\n".join(part["text"] for part in text) for text in told]


def write_hooks(session: Session, *entries: str) -> Path:
    """Give the user these hooks."""
    path = session.folder / "vibe" / "hooks.toml"
    path.write_text("\n".join(entries), encoding="utf-8")
    return path
