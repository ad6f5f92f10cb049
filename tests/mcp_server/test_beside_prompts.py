"""A served notebook goes on being used: cells are run again, settings change, prompts run."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from tests.app.conftest import Session
from tests.kernel.wire import WAIT
from tests.mcp_server.conftest import Served, serve
from tests.mcp_server.outsider import Outsider, text
from vibe_jupyter.testing import say


@contextmanager
def settings(session: Session, more: str) -> Generator[None]:
    """These settings beside the others."""
    config = session.folder / "vibe" / "config.toml"
    before = config.read_text(encoding="utf-8")
    config.write_text(before + more, encoding="utf-8")
    try:
        yield
    finally:
        config.write_text(before, encoding="utf-8")
        session.wire.run("%vibe reset")


def test_serving_again_shows_the_view_where_the_person_is_now_with_the_card_that_waits(
    served: Served, outsider: Outsider
) -> None:
    call = outsider.start("run_code", code="40 + 2")
    served.view.card()
    wire = served.session.wire
    wire.forget()
    cell = served.run("%vibe mcp serve")
    kinds = [message["msg_type"] for message in cell.outputs]
    assert kinds == ["update_display_data", "display_data"]
    left, shown = (message["content"]["data"] for message in cell.outputs[:2])
    assert left == {"text/plain": "This run is now shown in another cell."}
    assert shown["text/html"].startswith("<div data-vibe-view=")
    wire.forget()
    served.view.say({"type": "alive"})
    served.allow()
    assert text(call.result(WAIT)).endswith("42")
    assert served.run("%vibe mcp serve stop").text
    assert "<b>Stopped</b>" in served.kept()


def test_settings_that_a_later_prompt_reads_do_not_loosen_what_is_served(
    session: Session, connect: Callable[..., Outsider]
) -> None:
    session.wire.run("%vibe reset")
    served = serve(session)
    outsider = connect(served)
    with settings(session, '[tools.run_code]\npermission = "always"\n'):
        session.model.will_reply(say("Hello."))
        session.run("%%vibe\nHello")
        call = outsider.start("run_code", code="40 + 2")
        served.deny("Not now.")
        assert "Not now." in text(call.result(WAIT))
