"""`%vibe autoload`: asked for once, every later kernel of the profile has the magics."""

from pathlib import Path

import pytest

from tests.app.conftest import Session
from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import running_kernel

pytestmark = pytest.mark.xdist_group("app")


def test_a_new_kernel_has_the_magics_from_when_it_is_on_until_it_is_off(session: Session) -> None:
    assert "not loaded by itself" in session.run("%vibe autoload").text
    text = session.run("%vibe autoload on").text
    file = next(Path(session.folder, "ipython").rglob("50-vibe-jupyter.py"))
    assert str(file) in text
    with running_kernel(INSTALLED, session.folder) as later:
        assert f"by {file}" in later.run("%vibe autoload").text
        assert "not loaded by itself" in later.run("%vibe autoload off").text
        assert "not loaded by itself" in later.run("%vibe autoload off").text
    assert not file.exists()


def test_a_kernel_without_the_package_starts_as_ever(session: Session) -> None:
    session.run("%vibe autoload on")
    file = next(Path(session.folder, "ipython").rglob("50-vibe-jupyter.py"))
    hidden = f"import sys; sys.modules['vibe_jupyter_is_missing'] = None; exec({file.read_text()!r}.replace"
    assert session.run(f"{hidden}('\"vibe_jupyter\"', '\"vibe_jupyter_is_missing\"'))").text == ""
    session.run("%vibe autoload off")


def test_another_word_is_refused_and_sent_to_no_model(session: Session) -> None:
    assert "There is: %vibe autoload, %vibe autoload on, %vibe autoload off" in session.run("%vibe autoload yes").text
    assert session.model.requests == []
