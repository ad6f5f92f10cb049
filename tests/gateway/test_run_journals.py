"""What the gateway keeps of its runs, and how it is read."""

import os
import time
from pathlib import Path

import pytest

from tests.gateway.conftest import ALLOWED, Gateway, chat_body, gateway_at, until
from tests.gateway.test_approvals import ECHO, Streamed, answered
from vibe_jupyter.cli import main
from vibe_jupyter.gateway.run_journals import KEPT
from vibe_jupyter.protocol import ApprovalResolved, RunFinished, ToolFinished
from vibe_jupyter.session.journal import read_journal
from vibe_jupyter.testing import ScriptedModel, call

SECRET = "sk-proj-7Hq2mZ9xW4vB8nC1kL5jD3fG6sA0pQ2rT4yU"


def journals(gateway: Gateway) -> list[Path]:
    return sorted((gateway.folder / "home/logs/session/gateway").glob("*/journal.jsonl"))


def new_journal(gateway: Gateway, before: list[Path]) -> Path:
    (journal,) = set(journals(gateway)) - set(before)
    return journal


def test_a_run_with_calls_is_kept_without_secrets_and_can_be_read_in_a_shell(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = journals(gateway)
    gateway.will(call(ECHO, text=f"the key is {SECRET}"), "It is said.")

    earlier = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]
    asked = {"role": "user", "content": f"Say the key {SECRET}"}
    gateway.chat(messages=[*earlier, asked], session_id="keys-of-may")

    journal = new_journal(gateway, before)
    raw = journal.read_text(encoding="utf-8")
    assert SECRET not in raw
    assert "Say the key" in raw
    assert "It is said." in raw
    assert read_journal(journal).dropped == ()
    assert journal.stat().st_mode & 0o777 == 0o600
    assert journal.parent.stat().st_mode & 0o777 == 0o700

    monkeypatch.setenv("VIBE_HOME", str(gateway.folder / "home"))
    assert main(["sessions", "--gateway"]) == 0
    listed = capsys.readouterr().out
    assert "keys-of-may: Say the key" in listed
    assert main(["sessions", "--gateway", "--show", "keys-of-may"]) == 0
    shown = capsys.readouterr().out
    assert ECHO in shown
    assert "It is said." in shown
    assert SECRET not in shown
    assert main(["sessions"]) == 0
    assert "keys-of-may" not in capsys.readouterr().out


def test_of_an_answer_without_calls_nothing_is_kept(gateway: Gateway) -> None:
    before = journals(gateway)
    gateway.will("Hello.", "Hello.")

    gateway.chat("a greeting")
    gateway.stream("a greeting", session_id="greetings")

    assert journals(gateway) == before


def test_what_a_client_decided_is_kept(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model, "") as asking:
        asking.will(call(ECHO, text="hi"), "Not said.")
        stream = Streamed(asking)
        answered(asking, stream.asked()["approval_id"], decision="deny", message="use the other index")
        stream.text()
        events = read_journal(new_journal(asking, [])).events

    (decided,) = (event for event in events if isinstance(event, ApprovalResolved))
    assert decided.message == "use the other index"
    assert [event.outcome for event in events if isinstance(event, ToolFinished)] == ["denied"]


def test_a_run_whose_client_left_is_kept_to_its_end(gateway: Gateway, tmp_path: Path) -> None:
    before = journals(gateway)
    mark = tmp_path / "mark"
    gateway.will(call("mcp__sample__wait", period=60, mark=str(mark)))
    with gateway.client.stream("POST", "/v1/chat/completions", json=chat_body("wait", stream=True)) as response:
        pieces = response.iter_bytes()  # let go of, it would close the connection
        next(pieces)
        until(mark.exists)
    until(lambda: not gateway.server.parts.live)

    last = read_journal(new_journal(gateway, before)).events[-1]

    assert isinstance(last, RunFinished)
    assert last.reason == "interrupted"


def test_a_run_that_cannot_be_kept_calls_nothing(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model) as gateway:
        (tmp_path / "home/logs").write_text("in the way of the folder")
        mark = tmp_path / "mark"
        gateway.will(call("mcp__sample__wait", period=0.01, mark=str(mark)), "Done.")

        refused = gateway.chat("wait")

    assert refused.status_code == 503
    assert "Cannot record" in refused.json()["error"]["message"]
    assert not mark.exists()


def test_the_user_can_have_nothing_kept(tmp_path: Path, own_home: Path) -> None:
    settings = f"{ALLOWED}\n[session_logging]\nenabled = false\n"
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model, settings) as gateway:
        gateway.will(call(ECHO, text="hi"), "Said.")
        assert gateway.chat("say it").is_success

    assert not (tmp_path / "home/logs").exists()


def test_what_was_kept_for_a_month_is_deleted(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model) as gateway:
        kept = tmp_path / "home/logs/session/gateway"
        for name, age in (("run_old", KEPT + 60), ("run_young", KEPT - 3600)):
            (kept / name).mkdir(parents=True)
            os.utime(kept / name, (time.time() - age,) * 2)
        gateway.will(call(ECHO, text="hi"), "Said.")

        gateway.chat("say it")

        assert not (kept / "run_old").exists()
        assert (kept / "run_young").exists()
