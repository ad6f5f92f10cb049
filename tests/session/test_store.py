"""Saved conversations: what a list tells of them, how one is found, forked and deleted, and who may write."""

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.session.conftest import a_session, assistant, result, started, user
from vibe_jupyter.errors import ConfigError, JournalError
from vibe_jupyter.protocol import DurableEvent, MessageAdded, RunFinished, RunStarted, Usage
from vibe_jupyter.session.conversation import MAY_HAVE_RUN, Conversation, check_history, fold_history
from vibe_jupyter.session.journal import Journal, JournalInUse, JournalNote, Place, read_journal
from vibe_jupyter.session.store import INDEX_NAME, SavedSession, SessionStore, find_session, unique_ids

FORMATS = Path(__file__).parent / "formats"
HOLDS = """\
import sys, pathlib
from vibe_jupyter.session.journal import Journal
Journal.reopen(pathlib.Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


def a_run(prompt: str, *, cost: float | None = 0.25) -> tuple[DurableEvent, ...]:
    return (
        RunStarted(run_id="r", model="small", provider="localhost", agent="default", prompt=prompt),
        user(f"<notebook>…</notebook>\n{prompt}"),
        assistant("Yes."),
        RunFinished(reason="stop", turns=1, seconds=1.0, usage=Usage(prompt_tokens=5), cost=cost),
    )


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions")


@pytest.fixture
def save(store: SessionStore) -> Callable[..., Path]:
    """Writes a conversation of an id; its journal."""

    def write(session_id: str, *written: DurableEvent | JournalNote, place: Place | None = None) -> Path:
        folder = store.folder / f"session_{session_id[:8]}"
        at = place or Place("/work", "/work/penguins.ipynb")
        journal = Journal.create(folder, session_id=session_id, place=at)
        append(journal, *written)
        return journal.path

    return write


def append(journal: Journal, *written: DurableEvent | JournalNote) -> None:
    async def write() -> None:
        for one in written:
            await journal.append(one)

    asyncio.run(write())
    journal.close()


def test_a_list_tells_title_model_cost_messages_and_place(store: SessionStore, save: Callable[..., Path]) -> None:
    save("a" * 32, *a_run("\n  Look at the penguins\nand more"), *a_run("again"))
    (found,) = store.sessions()
    assert (found.id, found.title, found.model) == ("a" * 32, "Look at the penguins", "small")
    assert (found.messages, found.prompts, found.cost) == (4, 2, 0.5)
    assert (found.folder, found.notebook) == ("/work", "/work/penguins.ipynb")
    assert found.started <= found.ended


def test_a_title_can_be_given_and_a_price_that_is_not_known_is_not_made_up(
    store: SessionStore, save: Callable[..., Path]
) -> None:
    save("a" * 32, *a_run("first", cost=None), JournalNote(title="Penguins"), JournalNote(notebook="/work/new.ipynb"))
    (found,) = store.sessions()
    assert (found.title, found.is_named, found.cost, found.notebook) == ("Penguins", True, None, "/work/new.ipynb")


def test_the_title_that_was_given_last_is_that_of_the_list_and_of_the_conversation_that_goes_on(
    store: SessionStore, save: Callable[..., Path]
) -> None:
    titles = [JournalNote(title=title) for title in ("Penguins", "Herons", "Gulls")]
    path = save(
        "a" * 32, *titles[:2], *a_run("first"), titles[2], JournalNote(notebook="/work/new.ipynb"), *a_run("next")
    )
    assert [one.title for one in store.sessions()] == ["Gulls"]
    journal, contents = Journal.reopen(path)
    journal.close()
    assert Conversation.resumed(journal, contents).title == "Gulls"


def test_the_conversation_that_was_used_last_is_listed_first_however_long_ago_it_began(
    store: SessionStore, save: Callable[..., Path]
) -> None:
    def next_millisecond() -> None:
        """Journals tell times by milliseconds."""
        now = time.time_ns() // 1_000_000
        while time.time_ns() // 1_000_000 == now:
            pass

    paths: dict[str, Path] = {}
    for name in "cabd":
        next_millisecond()
        paths[name] = save(name * 32, *a_run("first"))
    for name in "bc":
        next_millisecond()
        journal, _ = Journal.reopen(paths[name])
        append(journal, *a_run("next"))
    listed = store.sessions()
    assert [one.id[0] for one in listed] == ["c", "b", "d", "a"]
    assert [one.id[0] for one in sorted(listed, key=lambda one: one.started)] == ["c", "a", "b", "d"]


def test_a_conversation_without_a_prompt_is_not_listed(store: SessionStore, save: Callable[..., Path]) -> None:
    save("a" * 32)
    assert store.sessions() == []
    assert SessionStore(store.folder / "missing").sessions() == []


def test_a_list_reads_only_what_is_new(store: SessionStore, save: Callable[..., Path]) -> None:
    path = save("a" * 32, *a_run("first"))
    before = store.sessions()
    whole = path.read_bytes()
    # What was read is not looked at again: not even where it changed, while the size says that it only grew.
    path.write_bytes(whole.replace(b'"small"', b'"SMALL"'))
    append(Journal.reopen(path)[0], *a_run("second", cost=None))
    (found,) = store.sessions()
    assert (found.messages, found.prompts, found.title, found.cost) == (4, 2, "first", 0.25)
    assert before[0].model == "small"


@pytest.mark.attack("saved files", always=True)
@pytest.mark.parametrize("damage", [b"{", b"[]", b'{"version": 99}', b'{"version": 1, "sessions": {"x": 1}}', None])
def test_a_broken_index_is_made_again_from_the_journals(
    store: SessionStore, save: Callable[..., Path], damage: bytes | None
) -> None:
    save("a" * 32, *a_run("first"))
    before = store.sessions()
    index = store.folder / INDEX_NAME
    assert index.stat().st_mode & 0o077 == 0
    index.unlink()
    if damage is not None:
        index.write_bytes(damage)
    assert store.sessions() == before
    assert SessionStore(store.folder).sessions() == before


def test_a_list_that_begins_in_the_midst_of_a_run_counts_its_prompt_once(
    store: SessionStore, save: Callable[..., Path]
) -> None:
    begun, *rest = a_run("first")
    path = save("a" * 32, begun)
    store.sessions()
    append(Journal.reopen(path)[0], *rest)
    assert store.sessions()[0].prompts == 1


def sessions(*named: tuple[str, str]) -> list[SavedSession]:
    return [SavedSession(name=one, id=one, title=title, prompts=1) for one, title in named]


KNOWN = sessions(("abcd1111", "Penguins by island"), ("abcd2222", "Sales of May"), ("ef003333", "sales of June"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("abcd1111", "abcd1111"),
        ("ABCD2", "abcd2222"),
        ("ef", "ef003333"),
        ("003333", "ef003333"),
        ("penguins", "abcd1111"),
        ("Sales of May", "abcd2222"),
    ],
)
def test_a_conversation_is_found_by_a_unique_part_of_its_id_or_title(text: str, found: str) -> None:
    assert find_session(text, KNOWN).id == found


def test_an_id_that_fits_several_names_them_and_an_unknown_one_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"'abcd' fits 2 conversations: abcd1111 Penguins.*; abcd2222 Sales"):
        find_session("abcd", KNOWN)
    with pytest.raises(ConfigError, match=r"No conversation has 'ef0044' in its id or title. The nearest: ef003333"):
        find_session("ef0044", KNOWN)
    with pytest.raises(ConfigError, match=r"The nearest: abcd1111 Penguins by island\.$"):
        find_session("pengiuns by iland", KNOWN)
    with pytest.raises(ConfigError, match=r"The nearest: (abcd2222|ef003333) \w+ of \w+; (abcd2222|ef003333) "):
        find_session("sales in may", KNOWN)
    with pytest.raises(ConfigError, match="No conversation is saved yet"):
        find_session("x", [])


def test_short_ids_grow_where_two_begin_alike() -> None:
    alike = sessions(("0123456789ab", "a"), ("0123456789cd", "b"), ("f" * 12, "c"))
    assert unique_ids(alike) == {"0123456789ab": "0123456789a", "0123456789cd": "0123456789c", "f" * 12: "f" * 8}
    crowd = sessions(*((name, name) for name in ("0123456789ab", "0123456789ac", "012345678a00", "0123456a0000")))
    assert unique_ids(crowd) == {
        "0123456789ab": "0123456789ab",
        "0123456789ac": "0123456789ac",
        "012345678a00": "012345678a",
        "0123456a0000": "0123456a",
    }


def test_a_reopened_journal_goes_on_where_it_ends(save: Callable[..., Path]) -> None:
    path = save("a" * 32, *a_run("first"))
    append(Journal.reopen(path)[0], *a_run("second"))
    contents = read_journal(path)
    assert contents.dropped == ()
    assert contents.events == (*a_run("first"), *a_run("second"))


@pytest.mark.attack("saved files", always=True)
@pytest.mark.parametrize("cut", [1, 7, 30])
def test_a_torn_last_line_is_passed_over_and_what_comes_after_it_is_read(save: Callable[..., Path], cut: int) -> None:
    path = save("a" * 32, *a_run("first"), user("half"))
    path.write_bytes(path.read_bytes()[:-cut])
    torn = path.read_bytes()
    journal, contents = Journal.reopen(path)
    is_whole = cut == 1  # only its line break is missing
    assert len(contents.events) == len(a_run("first")) + is_whole
    append(journal, *a_run("second"))
    assert path.read_bytes().startswith(torn)
    events = read_journal(path).events
    assert events[-4:] == a_run("second")
    check_history(fold_history(events))


def test_one_process_writes_and_another_is_told_who(save: Callable[..., Path]) -> None:
    path = save("a" * 32, *a_run("first"), JournalNote(pid=4711))
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(JournalInUse, match=r"another kernel \(process 4711\) has the conversation open"):
            Journal.reopen(path)
        other.kill()
    Journal.reopen(path)[0].close()  # a process that dies lets go


def test_a_fork_begins_with_all_there_was_and_leaves_the_other_as_it_is(
    store: SessionStore, save: Callable[..., Path]
) -> None:
    path = save("a" * 32, *a_run("first"), JournalNote(title="Penguins"))
    (path.parent / "results").mkdir()
    (path.parent / "results" / "long").write_text("all of it")
    before = path.read_bytes()
    journal, contents = store.fork(store.sessions()[0], "session", Place("/elsewhere"))
    assert contents.events == a_run("first")
    append(journal, *a_run("second"))
    assert path.read_bytes() == before
    assert journal.folder is not None
    assert (journal.folder / "results" / "long").read_text() == "all of it"
    forked = next(one for one in store.sessions() if one.parent == "a" * 32)
    assert (forked.title, forked.prompts, forked.folder) == ("Penguins", 2, "/elsewhere")
    assert read_journal(journal.path).dropped == ()


def test_a_deleted_conversation_is_gone_with_its_files_unless_it_is_open(
    store: SessionStore, save: Callable[..., Path]
) -> None:
    path = save("a" * 32, *a_run("first"))
    (found,) = store.sessions()
    journal, _ = Journal.reopen(path)
    with pytest.raises(JournalInUse):
        store.delete(found)
    journal.close()
    store.delete(found)
    assert not path.parent.exists()
    assert store.sessions() == []
    with pytest.raises(JournalError):
        store.delete(found)


@pytest.mark.requirement("session.migration.versions")
@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_format_there_was_loads_is_listed_and_goes_on(store: SessionStore, version: int) -> None:
    folder = store.folder / "session_20260131_120000_01234567"
    folder.mkdir(parents=True)
    path = folder / "journal.jsonl"
    shutil.copy(FORMATS / f"version-{version}.jsonl", path)
    (found,) = store.sessions()
    assert (found.id, found.title, found.prompts) == ("0123456789abcdef0123456789abcdef", "wish ·", 2)
    journal, contents = Journal.reopen(path)
    assert contents.header is not None
    assert (contents.header.version, contents.dropped) == (version, ())
    conversation = Conversation.resumed(journal, contents)
    assert conversation.prompts == ["wish · \u2028 🙂", "go on"]
    messages = [event.message for event in (*a_session(), user("go on")) if isinstance(event, MessageAdded)]
    assert list(conversation.history[: len(messages)]) == messages
    assert MAY_HAVE_RUN in str(conversation.history[-1])  # its last call had started
    check_history(conversation.history)
    append(journal, *a_run("once more"))
    assert read_journal(path).dropped == ()


def test_the_same_open_call_is_closed_alike_each_time(save: Callable[..., Path]) -> None:
    path = save("a" * 32, user("w"), assistant("", "c1", "c2"), started("c1"), result("c2", "two"))
    first = Conversation.resumed(*Journal.reopen(path))
    first.journal.close()
    again = Conversation.resumed(*Journal.reopen(path))
    again.journal.close()
    assert first.history == again.history
    check_history(again.history)
