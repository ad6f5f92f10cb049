"""The journal as it is written."""

import asyncio
import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.session.conftest import a_session, user
from vibe_jupyter.errors import JournalError
from vibe_jupyter.protocol import DURABLE_EVENTS, MessageAdded
from vibe_jupyter.session.journal import Journal, read_journal

NewJournal = Callable[[str], Journal]
ROOT = Path(__file__).parents[2]


def texts(path: Path) -> list[str]:
    """The text of each message of a journal."""
    events = read_journal(path).events
    return [event.message.parts[0].text for event in events if isinstance(event, MessageAdded)]


@pytest.mark.requirement("session.log.saved")
async def test_every_durable_event_is_read_back_as_it_was(journal: Journal) -> None:
    events = a_session()
    assert {type(event) for event in events} == set(DURABLE_EVENTS)
    for event in events:
        await journal.append(event)
    contents = read_journal(journal.path)
    assert contents.events == events
    assert contents.dropped == ()
    assert contents.header is not None
    assert (contents.header.session_id, contents.header.pid) == ("one", os.getpid())


@pytest.mark.requirement("session.log.saved")
async def test_an_event_can_be_read_as_soon_as_append_returns(journal: Journal) -> None:
    for number, event in enumerate(a_session(), start=1):
        await journal.append(event)
        assert len(read_journal(journal.path).events) == number


async def test_each_event_is_one_write_and_is_synced_before_append_returns(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []
    write, fsync = os.write, os.fsync
    monkeypatch.setattr(os, "write", lambda fd, data: (log.append("write"), write(fd, data))[1])
    monkeypatch.setattr(os, "fsync", lambda fd: (fsync(fd), log.append("fsync"))[0])
    for text in ("a", "b"):
        await journal.append(user(text))
        log.append("returned")
    assert log == ["write", "fsync", "returned"] * 2


async def test_the_disk_is_never_waited_for_on_the_loop(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fsync = threading.Event(), os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (slow.wait(10), fsync(fd))[1])
    waiting = asyncio.ensure_future(journal.append(user("a")))
    await asyncio.sleep(0)
    assert not waiting.done()
    slow.set()
    await asyncio.wait_for(waiting, 5)


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        journal = Journal.create(tmp_path / "deep" / "session", session_id="s")
    finally:
        os.umask(before)
    journal.close()
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(journal.path.parent.stat().st_mode) == 0o700


def test_a_folder_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Journal.create(tmp_path, session_id="s").close()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


async def test_eight_writers_at_once_stay_in_the_order_they_asked(journal: Journal) -> None:
    asked: list[str] = []

    async def append_some(name: str) -> None:
        for number in range(25):
            text = f"{name}{number}"
            asked.append(text)
            await journal.append(user(text))

    await asyncio.gather(*(append_some(name) for name in "abcdefgh"))
    assert texts(journal.path) == asked
    assert read_journal(journal.path).dropped == ()


async def test_half_a_surrogate_pair_does_not_stop_the_recording(journal: Journal) -> None:
    await journal.append(user("before \ud83d after"))
    await journal.append(user("🙂 whole"))
    assert texts(journal.path) == ["before \ufffd after", "🙂 whole"]


async def test_a_cancelled_append_is_still_written_so_the_order_holds(journal: Journal) -> None:
    waiting = asyncio.ensure_future(journal.append(user("cancelled")))
    await asyncio.sleep(0)
    waiting.cancel()
    await journal.append(user("next"))
    assert waiting.cancelled()
    assert texts(journal.path) == ["cancelled", "next"]


async def test_closing_writes_what_waits_and_ends_the_thread(new_journal: NewJournal) -> None:
    journal = new_journal("closing")
    waiting = [asyncio.ensure_future(journal.append(user(str(number)))) for number in range(20)]
    await asyncio.sleep(0)
    journal.close()
    journal.close()
    await asyncio.gather(*waiting)
    assert texts(journal.path) == [str(number) for number in range(20)]
    assert "vibe-journal" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(JournalError, match=r"closed\. Start a new one"):
        await journal.append(user("late"))


def test_a_second_journal_never_writes_over_the_first(new_journal: NewJournal) -> None:
    first = new_journal("same")
    before = first.path.read_bytes()
    with pytest.raises(JournalError, match="Another session uses that journal"):
        new_journal("same")
    assert first.path.read_bytes() == before


def test_a_place_that_cannot_be_written_is_named_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        JournalError, match=r"Cannot record in .*file/session.*a folder you can write, or set VIBE_HOME"
    ):
        Journal.create(tmp_path / "file" / "session", session_id="s")


FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from tests.session.conftest import user
from vibe_jupyter.errors import JournalError
from vibe_jupyter.session.journal import Journal

async def main():
    journal = Journal.create(Path(sys.argv[1]), session_id="full")
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, most))
    written = 0
    try:
        for number in range(100):
            await journal.append(user(f"{number} " + "x" * 1_000))
            written += 1
    except JournalError as error:
        print(error)
    try:
        await journal.append(user("y" * 40_000))
    except JournalError:
        print("again")
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    await journal.append(user("after"))
    journal.close()
    print(written)

asyncio.run(main())
"""


def test_a_full_disk_is_told_and_recording_goes_on_once_there_is_space(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "s")], capture_output=True, text=True, timeout=60, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    told, again, written = done.stdout.splitlines()
    assert told.startswith(f"Cannot record in {tmp_path}/s/journal.jsonl: File too large. Free space on {tmp_path}/s")
    assert told.endswith("then try again; nothing after this point was done.")
    assert again == "again"
    assert [text.split()[0] for text in texts(tmp_path / "s" / "journal.jsonl")] == [
        *map(str, range(int(written))),
        "after",
    ]
    assert read_journal(tmp_path / "s" / "journal.jsonl").dropped == ()


FORKED = """
import asyncio, os, sys
from pathlib import Path
from tests.session.conftest import user
from vibe_jupyter.errors import JournalError
from vibe_jupyter.session.journal import Journal

journal = Journal.create(Path(sys.argv[1]), session_id="forked")
if os.fork() == 0:
    try:
        asyncio.run(journal.append(user("child")))
    except JournalError as error:
        os.write(1, str(error).encode())
    os._exit(0)
os.wait()
asyncio.run(journal.append(user("parent")))
journal.close()
"""


def test_a_forked_child_is_told_at_once_that_the_journal_is_not_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, str(tmp_path / "s")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("the session is closed. Start a new one.")
    assert texts(tmp_path / "s" / "journal.jsonl") == ["parent"]


KILLED = """
import asyncio, os, sys
from pathlib import Path
from tests.session.conftest import user
from vibe_jupyter.session.journal import Journal

async def main():
    journal = Journal.create(Path(sys.argv[1]), session_id="killed")
    for number in range(100_000):
        await journal.append(user(f"{number} " + "x" * (number * 7919 % 200_000)))
        os.write(1, b"%d\\n" % number)

asyncio.run(main())
"""


def test_what_was_acknowledged_survives_a_kill_at_any_time(tmp_path: Path) -> None:
    for round_number in (0, 3, 7):
        folder = tmp_path / str(round_number)
        child = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, cwd=ROOT)
        assert child.stdout is not None
        for _ in range(1 + round_number * 3):
            acknowledged = int(child.stdout.readline())
        child.kill()
        with child.stdout:
            acknowledged = int([str(acknowledged), *child.stdout.read().split()][-1])
        child.wait(10)
        contents = read_journal(folder / "journal.jsonl")
        numbers = [int(text.split()[0]) for text in texts(folder / "journal.jsonl")]
        assert numbers in (list(range(acknowledged + 1)), list(range(acknowledged + 2)))
        assert len(contents.dropped) <= 1


async def test_an_event_and_the_name_of_its_file_are_on_the_disk_before_anyone_acts_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[list[str] | int] = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        sync(descriptor)
        status = os.fstat(descriptor)
        synced.append(os.listdir(descriptor) if stat.S_ISDIR(status.st_mode) else status.st_size)

    monkeypatch.setattr(os, "fsync", watched)
    journal = Journal.create(tmp_path / "session", session_id="one")
    header = journal.path.stat().st_size
    assert synced == [header, [journal.path.name]]
    await journal.append(user("hello"))
    assert synced[2:] == [journal.path.stat().st_size]
    assert journal.path.stat().st_size > header
    journal.close()


async def test_a_file_system_that_syncs_no_folders_keeps_a_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def only_files(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", only_files)
    journal = Journal.create(tmp_path / "session", session_id="one")
    await journal.append(user("hello"))
    journal.close()
    assert texts(journal.path) == ["hello"]


def test_the_folders_above_a_journal_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        journal = Journal.create(tmp_path / "logs" / "session" / "one", session_id="x")
    finally:
        os.umask(before)
    journal.close()
    for folder in (tmp_path / "logs", tmp_path / "logs" / "session", journal.path.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
