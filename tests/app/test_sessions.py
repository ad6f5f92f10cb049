"""Conversations over restarts of the kernel: listed, continued, forked, renamed, deleted, exported, recalled."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.app.conftest import CONFIG, Session
from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import running_kernel
from tests.notebook.page import Page, PageCell
from vibe_jupyter.commands.sessions import age_of
from vibe_jupyter.session.journal import read_journal
from vibe_jupyter.testing import ScriptedModel, answer, call, say

FORMATS = Path(__file__).parent.parent / "session" / "formats"
OFFER = re.compile(r"A conversation of this notebook from [\d-]+ [\d:]+ can be continued: %vibe resume")
pytestmark = pytest.mark.xdist_group("sessions")
SHORT = re.compile(r"^[* ] ([0-9a-f]{8})  ", re.MULTILINE)


class Machine:
    """One user's folders and model server, on which kernels come and go."""

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        self.folder = folder
        self.model = model
        self.home = folder / "vibe"
        self.home.mkdir()
        self.configure("")

    def configure(self, more: str) -> None:
        text = CONFIG.format(url=self.model.url)
        (self.home / "config.toml").write_text(f"{text}\n{more}", encoding="utf-8")

    @contextmanager
    def kernel(self, name: str = "") -> Iterator[Session]:
        """A kernel with the extension, in a folder of this name below."""
        work = self.folder / name
        work.mkdir(exist_ok=True)
        with running_kernel(INSTALLED, self.folder) as wire:
            wire.run(f"import os; os.chdir({str(work)!r})")
            wire.run("%load_ext vibe_jupyter")
            yield Session(wire, self.model, work)

    def journals(self) -> list[Path]:
        return sorted((self.home / "logs" / "session").glob("*/journal.jsonl"))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with ScriptedModel([]) as model:
        yield Machine(tmp_path, model)


def run_again(page: Page, cell: PageCell) -> None:
    page.press(cell)
    page.until(lambda: bool(cell.status), "the end of the cell")


def offers(session: Session) -> list[str]:
    """What runs said of an earlier conversation, each line once."""
    found = [line for message in session.wire.seen for line in OFFER.findall(json.dumps(message["content"]))]
    return list(dict.fromkeys(found))


def texts(request: object) -> str:
    return json.dumps(request)


def test_what_ran_in_the_background_is_named_after_a_restart(machine: Machine) -> None:
    machine.model.will_reply(call("bash", command="sleep 60", background=True), say("It runs."), say("Again?"))
    with machine.kernel() as session:
        session.run("rate = 0.1")
        session.run("%%vibe --yes=bash\nTrain it.")
    with machine.kernel() as session:
        said = session.run("%vibe resume").text
        assert "`rate` is not here: the conversation was in another Python process." in said
        assert "No longer running in the background: `sleep 60`." in said
        session.run("share = 0.2")
        session.run("%%vibe\nAnd now?")
        assert "No longer running in the background: `sleep 60`." in texts(machine.model.requests[-1].messages[-1])
        assert "Background" not in session.run("%vibe status").text
    with machine.kernel() as session:  # the latest prompt says what there was
        said = session.run("%vibe resume").text
        assert "`share` is not here: the conversation was in another Python process." in said
        assert "rate" not in said
        assert "No longer running" not in said


def test_a_cell_that_ran_in_the_background_is_named_after_a_restart(machine: Machine) -> None:
    with machine.kernel() as session:
        page = Page(session.wire, "print('begun', flush=True)\nwhile True: pass")
        queue = call("run_cells", cells=[page.cells[0].id], background="click")
        machine.model.will_reply(queue, say("It runs."), say("Again?"))
        page.press(page.add("%%vibe --yes=run_cells\nTrain it."))
        page.until(lambda: "begun" in page.cells[0].text, "the cell")
    with machine.kernel() as session:
        gone = re.search(r"No longer running in the background: (cell #1 \w+)", session.run("%vibe resume").text)
        assert gone is not None
        session.run("%%vibe\nAnd now?")
        assert f"{gone[0]}." in texts(machine.model.requests[-1].messages[-1])


@pytest.mark.requirement("magics.prompt.history", "session.resume.continue")
def test_the_latest_conversation_of_a_folder_goes_on_after_a_restart(machine: Machine) -> None:
    machine.model.will_reply(call("run_code", code="df"), say("It has one row."), say("2."), say("3."))
    with machine.kernel() as session:
        session.run("df = [1]\nn = 2")
        session.run("%%vibe --yes=run_code\nRemember the number 4711\nand more")
    before = machine.model.requests[-1].messages
    with machine.kernel() as session:
        assert "No prompts yet in this conversation" in session.run("%vibe history").text
        said = session.run("%vibe resume").text
        assert "Continuing 'Remember the number 4711' (" in said
        assert "`df`, `n` are not here: the conversation was in another Python process." in said
        session.run("%%vibe\nWhich number?")
        messages = machine.model.requests[-1].messages
        assert messages[1 : len(before)] == before[1:]
        assert messages[len(before)]["content"] == "It has one row."
        assert "Its variables are not here: df, n." in texts(messages[-1])
        listed = session.run("%vibe history").text.splitlines()
        assert listed[:2] == ["1  Remember the number 4711 and more", "2  Which number?"]
        recalled = session.wire.cell(session.wire.send("%vibe history 1", allow_stdin=False))
        payload = recalled.reply["payload"]
        assert payload[0]["text"] == "%%vibe\nRemember the number 4711\nand more"
        assert "There is no prompt 9 in this conversation. There are 2." in session.run("%vibe history 9").text
        session.run("%%vibe\nand now?")
        assert "variables are gone" not in texts(machine.model.requests[-1].messages[-1])
    assert len(machine.journals()) == 1
    assert read_journal(machine.journals()[0]).dropped == ()


def test_conversations_of_a_folder_whose_name_is_not_utf_8_are_listed_there(machine: Machine) -> None:
    machine.model.will_reply(say("Hello."), say("Hello again."))
    for prompt in ("first", "second"):
        with machine.kernel(os.fsdecode(b"caf\xe9")) as session:
            session.run(f"%vibe {prompt}")
            listed = session.run("%vibe sessions").text
    assert "first" in listed
    assert "second" in listed
    assert "other folders" not in listed


@pytest.mark.requirement("session.resume.by-id", "programmatic.cli.sessions")
def test_conversations_are_listed_named_by_id_renamed_forked_exported_and_deleted(machine: Machine) -> None:
    machine.model.will_reply(*(say(f"Answer {number}.") for number in range(4)))
    with machine.kernel() as session:
        session.run("%vibe first of all, please")
        assert "called 'Penguins by island' from now on" in session.run("%vibe rename Penguins by island").text
        session.run("%vibe reset")
        session.run("%vibe second of all, please")
        table = session.run("%vibe sessions").text
        second, first = SHORT.findall(table)
        assert re.search(rf"^\* {second} +now +2 .* second of all, please$", table, re.MULTILINE)
        assert re.search(rf"^  {first} +now +2 .* Penguins by island$", table, re.MULTILINE)
        unknown = session.run("%vibe resume pengiuns by iland").text
        assert "No conversation has 'pengiuns by iland' in its id or title. The nearest: " in unknown
        assert first in unknown
        assert "Continuing 'Penguins by island'" in session.run(f"%vibe resume {first[:6]}").text
        assert "is the open conversation" in session.run("%vibe resume penguins").text
        assert re.search(r"Continuing in a copy, [0-9a-f]{8}, of 'Penguins", session.run("%vibe fork").text)
        session.run("%vibe third of all, please")
        assert "Answer 0." in texts(machine.model.requests[-1].messages)
        rows = [row for row in session.run("%vibe sessions").text.splitlines() if SHORT.search(row)]
        titles = [row.split("  ")[-1] for row in rows]
        assert titles == ["Penguins by island (copy)", "Penguins by island", "second of all, please"]
        assert session.run("%vibe export out.md").text.startswith("Written: out.md, ")
        assert "## Prompt\n\nthird of all, please\n\n## Answer\n\nAnswer 2." in (session.folder / "out.md").read_text()
        assert "out.md exists already" in session.run("%vibe export out.md").text
        session.run(f"%vibe export {second} out.json")
        exported = json.loads((session.folder / "out.json").read_text())
        assert exported["conversation"]["title"] == "second of all, please"
        assert [message["role"] for message in exported["messages"]] == ["user", "assistant"]
        assert "Nobody can be asked here" in session.run(f"%vibe delete {second}").text
        kept = session.type_in(session.wire.send(f"%vibe delete {second}"), "n").text
        assert "Nothing was deleted." in kept
        gone = session.type_in(session.wire.send(f"%vibe delete {second}"), "y").text
        assert "Deleted: 'second of all, please' (" in gone
        assert second not in session.run("%vibe sessions").text
    shell = subprocess.run(
        [sys.executable, "-c", "from vibe_jupyter.cli import main; raise SystemExit(main())", "sessions"],
        env={**os.environ, "VIBE_HOME": str(machine.home)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(SHORT.findall(shell.stdout)) == 2
    assert first in shell.stdout


@pytest.mark.requirement("session.log.switch", "session.log.directory", "config.key.session_logging")
def test_logging_can_be_switched_off_and_its_folder_set(machine: Machine) -> None:
    machine.model.will_reply(call("run_code", code="print('x' * 200_000)"), say("Long."), say("Done."))
    machine.configure("[session_logging]\nenabled = false\n")
    secret = "zebra-crossing"
    with machine.kernel() as session:
        session.run(f"%%vibe --yes=run_code\n{secret}")
        assert "kept in memory alone" in session.run("%vibe status").text
        assert secret in session.run("%vibe history").text
        assert "not kept on disk" in session.run("%vibe export out.md").text
    found = [path for path in machine.home.rglob("*") if path.is_file() and secret in path.read_text(errors="replace")]
    assert found == []
    assert not (machine.home / "logs").exists()
    machine.configure('[session_logging]\nsave_dir = "kept/here"\nsession_prefix = "talk"\n')
    with machine.kernel() as session:
        session.run(f"%vibe {secret} once more, please")
    (journal,) = machine.home.glob("kept/here/talk_*/journal.jsonl")
    assert secret in journal.read_text()
    for place in (machine.home / "kept", *(machine.home / "kept").rglob("*")):
        assert place.stat().st_mode & 0o077 == 0, place


@pytest.mark.requirement("session.resume.torn")
def test_two_kernels_never_write_one_conversation_and_share_no_grants(machine: Machine) -> None:
    machine.model.will_reply(call("run_code", code="1"), say("One."), say("Here."), say("There."))
    with machine.kernel() as session, machine.kernel("other") as other:
        request = session.wire.send("%%vibe\nfirst of all")
        view = session.view(request)
        view.command(type="approve", approval_id=view.card(), remember="session")
        session.wire.cell(request)
        assert "run_code" in session.run("%vibe status").text
        said = other.run("%vibe resume first of all").text
        assert re.search(r"Another kernel \(process \d+\) has this conversation open\. Continuing in a copy of", said)
        assert "Allowed for this session: nothing" in other.run("%vibe status").text
        other.run("%vibe only there, please")
        session.run("%vibe only here, please")
        assert "only there" not in texts(machine.model.requests[-1].messages)
        assert "One." in texts(machine.model.requests[-1].messages)
    for journal in machine.journals():
        assert read_journal(journal).dropped == ()
        journal.write_bytes(journal.read_bytes()[:-9])  # as a crash leaves it
    machine.model.will_reply(say("Still here."))
    with machine.kernel() as session:
        session.run("%vibe resume")
        session.run("%vibe and now, please")
    assert "only here, please" in texts(machine.model.requests[-1].messages)


@pytest.mark.requirement("session.resume.continue")
def test_a_notebook_names_its_conversation_and_offers_it_once_its_kernel_is_new(machine: Machine) -> None:
    machine.model.will_reply(*map(say, ("It weighs 4711 g.", "A heron.", "Hello.", "A new thought.", "Half of it.")))
    with machine.kernel("work") as session:
        page = Page(session.wire, "weight = 1", "weight = 4711", "half = weight / 2")
        for cell in page.cells:
            run_again(page, cell)
        page.run("%%vibe\nHow heavy is it?")
        assert offers(session) == []
    (journal,) = machine.journals()
    header = read_journal(journal).header
    assert header is not None
    assert page.metadata == {"conversation": header.session_id}
    before = machine.model.requests[-1].messages
    with machine.kernel("other") as session:
        session.run("%vibe another conversation, of a folder and no notebook")
    with machine.kernel("work") as session:
        session.run("%vibe hello where nobody can answer")
        assert offers(session) == []
    with machine.kernel("work") as session:
        page = Page(session.wire, metadata=page.metadata, cells=page.cells[:3])
        page.run("%%vibe\nAnd now?")
        assert len(offers(session)) == 1
        assert len(machine.model.requests[-1].messages) == 2
        said = page.run("%vibe resume").text
        assert "Continuing 'How heavy is it?' (" in said
        assert "`weight`, `half` are gone: the kernel was restarted. Run cells [4]-[5]?" in said
        assert page.metadata == {"conversation": header.session_id}
        page.run("%%vibe\nHalf of it?")
        messages = machine.model.requests[-1].messages
        assert messages[1 : len(before)] == before[1:]
        assert messages[len(before)]["content"] == "It weighs 4711 g."
        assert "These variables are gone: weight, half." in texts(messages[-1])
        assert len(offers(session)) == 1


@pytest.mark.requirement("session.isolation.session")
def test_two_notebooks_share_no_history_no_state_of_tools_and_no_grants(machine: Machine) -> None:
    plan = [{"content": "weigh the heron", "status": "in_progress"}]
    look_back = [call("todo", action="read"), call("run_code", code="print(6 * 7)")]
    with machine.kernel("work") as session, machine.kernel("work") as other:
        machine.model.will_reply(answer("", [call("todo", todos=plan), call("run_code", code="1")]), say("4711 g."))
        request = session.wire.send("%%vibe\nweigh it")
        view = session.view(request)
        view.command(type="approve", approval_id=view.card(), remember="session")
        session.wire.cell(request)
        machine.model.will_reply(answer("", look_back), say("Nothing."), answer("", look_back), say("The plan."))
        other.run("%vibe and what do you know?")
        sent = texts(machine.model.requests[-1].messages)
        assert "4711" not in sent
        assert "heron" not in sent
        todo, ran = machine.model.requests[-1].tool_results
        assert "The list is empty" in todo
        assert "42" not in ran
        assert "Allowed for this session: nothing" in other.run("%vibe status").text
        session.run("%vibe and what do you know?")
        todo, ran = machine.model.requests[-1].tool_results[-2:]
        assert "weigh the heron" in todo
        assert "42" in ran

        page = Page(session.wire, "weight = 4711", path="work/heron.ipynb")
        copy = Page(other.wire, path="work/copy.ipynb", cells=[replace(page.cells[0])])
        edit = call("edit_cell", cell=page.cells[0].id, source="weight = 4712")
        machine.model.will_reply(call("read_notebook"), say("Read."), edit, say("Not read here."), edit, say("Edited."))
        page.run("%%vibe\nread it")
        copy.run("%%vibe --yes=edit_cell\nedit it")
        assert "was not read yet" in machine.model.requests[-1].tool_results[-1]
        page.run("%%vibe --yes=edit_cell\nedit it")
        assert (page.cells[0].source, copy.cells[0].source) == ("weight = 4712", "weight = 4711")


@pytest.mark.requirement("session.migration.vibe")
@pytest.mark.parametrize(
    ("version", "part", "title", "said"),
    [("2.18.4", "5b3f2a10", "Heavy penguins", "5076"), ("1.3.5", "9c0ffee0", "How many herons?", "2 matches")],
)
def test_a_session_of_mistral_vibe_is_listed_and_goes_on_as_ours(
    machine: Machine, version: str, part: str, title: str, said: str
) -> None:
    saved = machine.home / "logs" / "session"
    shutil.copytree(FORMATS / f"mistral-vibe-{version}", saved)
    for path in saved.rglob("*.json*"):  # it was held in the folder that the kernel works in
        path.write_bytes(path.read_bytes().replace(b"/home/ada/birds", str(machine.folder / "birds").encode()))
    kept = {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()}
    machine.model.will_reply(say("Then not."))
    with machine.kernel("birds") as session:
        listed = session.run("%vibe sessions all").text
        assert re.search(rf"^  {part} .* Mistral Vibe, birds +{re.escape(title)}$", listed, re.MULTILINE)
        assert "No other conversation of this notebook or folder" in session.run("%vibe resume").text
        assert f"Mistral Vibe keeps '{title}', and it stays as it is." in session.run(f"%vibe delete {part} yes").text
        resumed = session.run(f"%vibe resume {part}").text
        assert f"Continuing in a copy of Mistral Vibe's '{title}' ({part}, " in resumed
        session.run("%vibe go on, please")
        messages = machine.model.requests[-1].messages
        assert said in texts(messages[1:])
    (journal,) = machine.journals()
    header = read_journal(journal).header
    assert header is not None
    assert header.imported.startswith(part)
    assert {path: path.read_bytes() for path in kept} == kept


def test_a_working_folder_that_goes_while_the_kernel_runs_takes_no_conversation_with_it(machine: Machine) -> None:
    with machine.kernel("work") as session:
        page = Page(session.wire, "a = 1")
        session.model.will_reply(say("Hello."), say("Still here."))
        page.run("%%vibe\nfirst of all")
        session.wire.run("os.mkdir('below'); os.chdir('below'); os.rmdir('../below')")

        assert "first of all" in page.run("%vibe sessions").text
        assert "(copy)" in page.run("%vibe fork").text + page.run("%vibe sessions").text
        page.run("%vibe reset")
        assert page.run("%%vibe\nsecond").status == "ok"
        assert "second" in page.run("%vibe sessions all").text


@pytest.mark.parametrize(
    ("ago", "told"),
    [
        (timedelta(seconds=50), "now"),
        (timedelta(seconds=65), "1 min"),
        (timedelta(minutes=59), "59 min"),
        (timedelta(minutes=61), "1 h"),
        (timedelta(hours=23.9), "23 h"),
        (timedelta(hours=24.1), "24 h"),
        (timedelta(hours=47.9), "47 h"),
        (timedelta(hours=48.1), "2 days"),
        (timedelta(hours=71.9), "2 days"),
        (timedelta(hours=72.1), "3 days"),
    ],
)
def test_an_age_is_told_in_the_unit_that_says_enough(ago: timedelta, told: str) -> None:
    assert age_of((datetime.now(UTC) - ago).isoformat()) == told


def test_an_export_that_a_full_disk_cut_short_leaves_no_part_behind(machine: Machine) -> None:
    with machine.kernel("work") as session:
        page = Page(session.wire, "a = 1")
        session.model.will_reply(say("Hello. " * 1_000))
        page.run("%%vibe\nsay much")
        limit = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, ({}, r.RLIM_INFINITY)); del r"

        session.wire.run(limit.format(1_000))
        said = page.run("%vibe export whole.md").text
        session.wire.run(limit.format("r.RLIM_INFINITY"))

        assert "Cannot write whole.md: File too large." in said
        assert not (session.folder / "whole.md").exists()
        assert "Written: whole.md" in page.run("%vibe export whole.md").text
