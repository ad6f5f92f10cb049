"""A long conversation as the user meets it: `%vibe context`, `%vibe compact`, the last line, and own middleware."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import Session, running_session
from tests.app.prompt_sessions import file, first_prompt, settings
from tests.kernel.matrix import INSTALLED
from vibe_jupyter.testing import Tokens, call, say

pytestmark = pytest.mark.xdist_group("app")

WINDOW = 40_000
PROMPTS = Path(__file__).parents[2] / "vibe_jupyter" / "agent" / "prompts"
DOCS = Path(__file__).parents[2] / "docs" / "context.md"


@pytest.fixture(scope="module")
def own_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("context")) as session:
        config = session.folder / "vibe" / "config.toml"
        config.write_text(config.read_text(encoding="utf-8") + f"context_window = {WINDOW}\n", encoding="utf-8")
        yield session


@pytest.fixture
def kernel(own_kernel: Session) -> Session:
    own_kernel.run("%vibe reset")
    own_kernel.model.requests.clear()
    return own_kernel


def set_up(session: Session, line: str) -> None:
    """Write a setting before the tables."""
    config = session.folder / "vibe" / "config.toml"
    text = re.sub(
        r"^(auto_compact_threshold|max_tokens|context_warnings) .*\n", "", config.read_text("utf-8"), flags=re.M
    )
    config.write_text(f"{line}\n{text}" if line else text, encoding="utf-8")


def test_the_tokens_of_the_next_request_are_shown_by_part_and_in_the_last_line(kernel: Session) -> None:
    assert kernel.run("%vibe context").text == "There is no conversation yet.\n"
    kernel.model.will_reply(
        call("inspect", names=["int"]), say("Seen.", usage=Tokens(prompt=10_000, completion=100)), say("Again.")
    )
    kernel.run("%%vibe\nWhat is int?")
    cell = kernel.run("%%vibe\nAnd float?")
    assert "25% context" in kernel.html(cell)  # by the count of the server
    shown = kernel.run("%vibe context").text
    assert f"of {WINDOW:,} tokens, " in shown
    parts = {name: int(count.replace(",", "")) for name, count in re.findall(r"^  (\w+) +([\d,]+) tokens", shown, re.M)}
    assert list(parts) == ["system", "tools", "report", "messages", "results", "images"]
    assert all(parts[name] for name in ("system", "tools", "report", "messages", "results"))
    assert "shortened from 24,000 tokens on." in shown
    assert "compacted from 34,000 tokens on;" in shown
    assert re.findall(r"^ +(\d+) +[\d,]+ tokens  (.*)$", shown, re.M) == [("1", "What is int?"), ("2", "And float?")]


def test_an_exchange_that_was_dropped_is_sent_no_more(kernel: Session) -> None:
    kernel.model.will_reply(*[say("Yes.")] * 3)
    kernel.run("%%vibe\nRemember apples.")
    kernel.run("%%vibe\nRemember pears.")
    assert kernel.run("%vibe context drop 1").text.endswith("Remember apples.\n")
    assert "There is no exchange 5." in kernel.run("%vibe context drop 5").text
    kernel.run("%%vibe\nWhat was it?")
    sent = json.dumps(kernel.model.requests[-1].messages)
    assert ("apples" in sent, "pears" in sent) == (False, True)
    assert "outline" in sent or "Python" in sent  # the report tells all again


@pytest.mark.parametrize(("prompts", "earlier"), [(20, 0), (21, 1)])
def test_of_many_exchanges_the_latest_are_listed_under_the_numbers_that_drop_them(
    kernel: Session, prompts: int, earlier: int
) -> None:
    kernel.model.will_reply(*[say("Yes.")] * prompts)
    kernel.run("\n".join(f"%vibe Prompt {number}." for number in range(1, prompts + 1)))
    shown = kernel.run("%vibe context").text
    listed = re.findall(r"^ +(\d+) +[\d,]+ tokens  Prompt (\d+)\.$", shown, re.M)
    assert listed == [(str(number), str(number)) for number in range(earlier + 1, prompts + 1)]
    assert re.findall(r"… (\d+) earlier", shown) == [str(earlier)] * bool(earlier)
    assert kernel.run(f"%vibe context drop {prompts - 1}").text.endswith(f"Prompt {prompts - 1}.\n")


@pytest.mark.requirement("compaction.trigger.manual")
def test_it_is_compacted_on_demand_and_the_notebook_is_reported_again(kernel: Session) -> None:
    assert kernel.run("%vibe compact").text == "There is no conversation yet.\n"
    kernel.run("frame_of_mind = 1")
    kernel.model.will_reply(say("Noted."), say("The sum is 12."), say("It is 12."))
    kernel.run("%%vibe\nThe code word is walrus.")
    cell = kernel.run("%vibe compact keep the sum")
    assert "Compacted" in kernel.html(cell)
    assert "The sum is 12." in kernel.html(cell)
    assert "The user adds: keep the sum" in kernel.model.requests[-1].last_user_text
    kernel.run("%%vibe\nWhat was the sum?")
    opening = json.dumps(kernel.model.requests[-1].messages[1], ensure_ascii=False)
    for kept in ("The sum is 12.", "1. The code word is walrus.", "frame_of_mind", "read_file path=result:"):
        assert kept in opening


@pytest.mark.requirement("prompts.utility.overridable")
def test_the_prompts_for_one_purpose_are_files_that_the_user_may_replace(kernel: Session) -> None:
    def asked() -> str:
        kernel.run("%vibe reset")
        kernel.model.will_reply(say("Noted."), say("A summary."))
        kernel.run("%%vibe\nThe code word is walrus.")
        kernel.run("%vibe compact keep it")
        return kernel.model.requests[-1].last_user_text

    ours = (PROMPTS / "compact.md").read_text(encoding="utf-8").strip()
    assert asked() == f"{ours}\n\nThe user adds: keep it"
    prompts = kernel.folder / "vibe" / "prompts"
    with file(prompts / "compact.md", "For {config.active_model}; api_key = 'hK3jR8wQpL5vN2xZ'.\n"):
        assert asked() == "For scripted; api_key = '[redacted: API key, 16 characters]'.\n\nThe user adds: keep it"
    with file(prompts / "brief.md", "One line."), settings(kernel, 'compaction_prompt_id = "brief"'):
        assert asked() == "One line.\n\nThe user adds: keep it"
    with file(prompts / "project_context.md", "Here: {abs_path}."):
        assert f"<project>\nHere: {kernel.folder}.\n</project>" in first_prompt(kernel)
    with file(prompts / "dangerous_directory.md", "Not in {abs_path}."):
        kernel.run(f"import os; home = os.environ['HOME']; os.environ['HOME'] = {str(kernel.folder)!r}")
        said = first_prompt(kernel)
        kernel.run("os.environ['HOME'] = home")
    assert f"Not in {kernel.folder}." in said


def test_the_threshold_of_the_settings_counts(kernel: Session) -> None:
    kernel.model.will_reply(say("Yes.", usage=Tokens(prompt=20_000, completion=10)), say("A summary."), say("On."))
    set_up(kernel, "auto_compact_threshold = 15_000")
    kernel.run("%%vibe\nFirst.")
    assert "Compacted" in kernel.html(kernel.run("%%vibe\nSecond."))
    set_up(kernel, "auto_compact_threshold = 0")
    kernel.model.will_reply(say("Yes.", usage=Tokens(prompt=39_000, completion=10)), say("Whole."))
    kernel.run("%%vibe\nThird.")
    assert "Compacted" not in kernel.html(kernel.run("%%vibe\nFourth."))
    set_up(kernel, "")


def test_tokens_of_a_run_are_limited_by_the_settings(kernel: Session) -> None:
    set_up(kernel, "max_tokens = 500")
    kernel.model.will_reply(call("inspect", names=["int"]), say("Never asked."))
    cell = kernel.run("%%vibe\nLook.")
    assert cell.error.startswith("RunFailed: ")
    assert "Stopped at the token limit" in kernel.html(cell)
    set_up(kernel, "")
    kernel.model.will_reply()


@pytest.mark.requirement("middleware.hooks.before-after")
def test_own_middleware_is_added_by_one_file_and_acts_before_and_after_each_turn(kernel: Session) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    folder = kernel.folder / "vibe" / "middleware"
    folder.mkdir()
    own = folder / "night_shift.py"
    own.write_text(example, encoding="utf-8")
    kernel.model._replies.clear()  # pyright: ignore[reportPrivateUsage]
    kernel.model.will_reply(call("inspect", names=["int"]), say("Done."), say("Checked."))
    cell = kernel.run("%%vibe\nLook.")
    assert "Asked to check." in kernel.html(cell)
    assert "Check your figures once more" in kernel.model.requests[-1].last_user_text
    kernel.model.will_reply(*[call("read_file", path=f"none{number}") for number in range(7)])
    cell = kernel.run("%%vibe\nRead them.")
    assert "Stopped: five calls failed in a row." in kernel.html(cell)
    assert len(kernel.model.requests) == 3 + 5
    own.write_text("def broken(:", encoding="utf-8")
    kernel.model._replies.clear()  # pyright: ignore[reportPrivateUsage]
    kernel.model.will_reply(say("Fine."))
    assert "Its middleware is left out." in kernel.html(kernel.run("%%vibe\nGo."))
    own.unlink()


@pytest.mark.attack("untrusted folders", always=True)
def test_a_folder_that_is_not_trusted_brings_no_middleware(kernel: Session) -> None:
    folder = kernel.folder / ".vibe" / "middleware"
    folder.mkdir(parents=True)
    (folder / "theirs.py").write_text("raise SystemExit('ran')", encoding="utf-8")
    kernel.model._replies.clear()  # pyright: ignore[reportPrivateUsage]
    kernel.model.will_reply(say("Fine."))
    shown = kernel.html(kernel.run("%%vibe\nGo."))
    assert "is not trusted" in shown
    assert "ran" not in shown.replace("trusted", "")
    assert "runs .vibe/middleware/theirs.py" in kernel.run("%vibe trust").text
