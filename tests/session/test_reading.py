"""A journal that was damaged, cut, or written by another version."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.session.conftest import a_session, user
from vibe_jupyter.errors import JournalError
from vibe_jupyter.protocol import DurableEvent
from vibe_jupyter.session.journal import (
    FORMAT_VERSION,
    MAX_LINE,
    Journal,
    JournalHeader,
    encode_body,
    encode_record,
    read_journal,
)

TIME = "2026-01-31T12:00:00.000Z"


def line(event: DurableEvent) -> bytes:
    return encode_record(TIME, "event", encode_body(event))


def header(session_id: str = "s", version: int = FORMAT_VERSION) -> bytes:
    written = JournalHeader(version=version, session_id=session_id, started=TIME, pid=1)
    return encode_record(TIME, "header", encode_body(written))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


@pytest.fixture
async def whole(path: Path) -> bytes:
    """The bytes of an undamaged journal, as `Journal` writes them."""
    journal = Journal.create(path.parent, session_id="s")
    for event in a_session():
        await journal.append(event)
    journal.close()
    return path.read_bytes()


async def test_cut_anywhere_in_its_last_three_records_it_keeps_all_before(path: Path, whole: bytes) -> None:
    lines = whole.splitlines(keepends=True)
    for length in range(len(b"".join(lines[:-3])), len(whole)):
        path.write_bytes(whole[:length])
        contents = read_journal(path)
        *complete, torn = whole[:length].split(b"\n")
        # A record is whole once its last brace is there, with or without its line break.
        kept = len(complete) - 1 + (torn + b"\n" in lines)
        assert contents.events == a_session()[:kept]
        assert len(contents.dropped) == (torn != b"" and torn + b"\n" not in lines)


async def test_a_flipped_bit_costs_at_most_the_lines_it_touches(path: Path, whole: bytes) -> None:
    chance = random.Random(7)
    lines = whole.splitlines(keepends=True)
    ends = {len(b"".join(lines[:number])) - 1 for number in range(1, len(lines))}
    owner = [number for number, text in enumerate(lines) for _ in text]
    for place in sorted({*range(0, len(whole) - 1, 3), *ends}):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        contents = read_journal(path)
        touched = {owner[place], owner[place + 1]}
        spared = [event for number, event in enumerate(a_session(), 1) if number not in touched]
        assert [event for event in contents.events if event in spared] == spared
        assert len(contents.events) + len(touched) >= len(a_session())
        if place in ends:  # two records in one line
            assert contents.dropped == (f"Line {owner[place] + 1} was passed over: it is damaged.",)


@pytest.mark.attack("saved files", always=True)
@given(st.binary(max_size=400), st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_no_contents_make_it_raise(tmp_path_factory: pytest.TempPathFactory, noise: bytes, place: int) -> None:
    path = tmp_path_factory.mktemp("noise") / "journal.jsonl"
    lines = [header(), line(user("a")), line(user("b"))]
    path.write_bytes(b"".join([*lines[:place], noise + b"\n", *lines[place:]]))
    assert read_journal(path).events == (user("a"), user("b"))


def test_an_empty_file_is_an_empty_journal(path: Path) -> None:
    path.touch()
    assert read_journal(path).events == ()
    assert read_journal(path).header is None


def test_a_missing_file_is_an_error_with_a_next_step(path: Path) -> None:
    with pytest.raises(JournalError, match=r"Cannot read .*journal\.jsonl: No such file or directory\. Start a new"):
        read_journal(path)


def test_a_damaged_line_is_named_once_and_what_follows_is_kept(path: Path) -> None:
    path.write_bytes(header() + line(user("a")) + line(user("lost"))[:-9] + b"\n{{}}\n" + line(user("d")))
    contents = read_journal(path)
    assert contents.events == (user("a"), user("d"))
    assert contents.dropped == (
        "Line 3 was passed over: it has no end.",
        "Line 4 was passed over: it is damaged.",
    )


@pytest.mark.attack("saved files", always=True)
def test_two_journals_in_one_file_are_both_kept_and_the_seam_is_named(path: Path) -> None:
    path.write_bytes(header("one") + line(user("a")) + header("two") + line(user("b")))
    contents = read_journal(path)
    assert contents.events == (user("a"), user("b"))
    assert contents.header is not None
    assert contents.header.session_id == "one"
    assert contents.dropped == ("Line 3: another journal, two, goes on here.",)


def test_a_repeated_first_line_is_not_told_as_another_journal(path: Path) -> None:
    path.write_bytes(header() * 2 + line(user("a")))
    assert read_journal(path).events == (user("a"),)
    assert read_journal(path).dropped == ("Line 2: this journal begins again here.",)


def test_records_of_a_newer_version_are_passed_over_and_named(path: Path) -> None:
    new_event = encode_record(TIME, "event", b'{"type":"cell_painted","colour":"red"}')
    new_kind = new_event.replace(b'"event"', b'"index"')
    path.write_bytes(header(version=FORMAT_VERSION + 1) + line(user("a")) + new_event + new_kind + line(user("b")))
    contents = read_journal(path)
    assert contents.events == (user("a"), user("b"))
    newer, event, kind = contents.dropped
    assert newer == "Line 1: a newer version wrote this; update vibe-jupyter to read all of it."
    assert event.startswith("Line 3 was passed over: this version cannot read it (event: Input tag 'cell_painted'")
    assert kind == "Line 4 was passed over: this version knows no such record."


@pytest.mark.attack("saved files", always=True)
def test_a_line_longer_than_any_record_is_passed_over_in_bounded_memory(path: Path) -> None:
    with path.open("wb") as file:
        file.write(header() + line(user("a")))
        file.truncate(file.tell() + 2 * MAX_LINE + 5)
        file.seek(0, 2)
        file.write(b"\n" + line(user("b")))
    contents = read_journal(path)
    assert contents.events == (user("a"), user("b"))
    assert contents.dropped == ("Line 3 was passed over: it is longer than any record.",)
