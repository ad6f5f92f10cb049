"""What stays in the notebook is what the settings say, whichever front end showed the run."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import CONFIG, Session, running_session
from tests.kernel.matrix import INSTALLED
from vibe_jupyter.testing import call, hold, say

pytestmark = pytest.mark.xdist_group("app")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("kept")) as session:
        yield session


def settings(session: Session, lines: str) -> None:
    config = CONFIG.format(url=session.model.url)
    (session.folder / "vibe" / "config.toml").write_text(f"{lines}\n{config}", encoding="utf-8")


def test_where_nobody_clicks_a_summary_is_kept_from_the_next_prompt_on(kernel: Session) -> None:
    settings(kernel, 'transcript = "summary"\ntranscript_times = false')
    kernel.model.will_reply(call("inspect"), say("There are **none**."))
    shown = kernel.html(kernel.run("%vibe what is there?"))
    assert "<strong>none</strong>" in shown
    assert "1 step" in shown
    assert "<details" not in shown
    settings(kernel, "")
    kernel.model.will_reply(call("inspect"), say("There are **none**."))
    assert "<details" in kernel.html(kernel.run("%vibe and now?"))


def test_the_live_view_shows_everything_and_leaves_one_line_where_nothing_is_to_be_kept(kernel: Session) -> None:
    settings(kernel, 'transcript = "none"')
    go_on = threading.Event()
    kernel.model.will_reply(call("run_code", code="6 * 7"), hold(go_on, "It is 42."))
    request = kernel.wire.send("%vibe compute it")
    view = kernel.view(request)
    view.command(type="approve", approval_id=view.card())
    view.wait_for("It is 42.")
    go_on.set()
    assert kernel.html(kernel.wire.cell(request)).endswith(">A run was here: Done, 1 step.</div>")


def test_the_same_prompt_leaves_the_same_bytes_in_two_kernels(tmp_path: Path) -> None:
    left: list[str] = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        with running_session(INSTALLED, folder) as session:
            settings(session, "transcript_times = false")
            session.model.will_reply(call("run_code", code="6 * 7"), call("inspect"), say("It is **42**."))
            shown = session.html(session.run("%vibe --yes=run_code compute it"))
            left.append(shown.replace(session.model.url.split("/")[2], "SERVER"))
    assert left[0] == left[1]
    assert "42" in left[0]
    assert os.fspath(tmp_path) not in left[0]
