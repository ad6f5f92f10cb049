"""What is kept of cells and files before they change: bounded, private, and readable after a crash."""

import asyncio
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from vibe_jupyter.protocol import Cell, Change, MoveCells, SetSource, source_hash
from vibe_jupyter.session.snapshots import CHANGES, FILE_LIMIT, RunSnapshots, Snapshots
from vibe_jupyter.session.undo_plan import joined_runs, plan_undo


def write(run: RunSnapshots, path: Path, content: bytes) -> None:
    """Change a file as a tool of a run does."""
    asyncio.run(run.before_writes({path: path.name}))
    path.write_bytes(content)
    asyncio.run(run.after_writes([path]))


def edit(run: RunSnapshots, cell: Cell, source: str) -> int:
    change = SetSource(cell=cell.id, expected=source_hash(cell.source), source=source)
    return asyncio.run(run.before_edits([change], [cell]))


def test_a_file_is_kept_byte_for_byte_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path, content = tmp_path / "a.bin", b'\xff\x00 api_key = "sk-proj-0123456789abcdefghij"\r\n'
    path.write_bytes(content)
    run = Snapshots(tmp_path).begin("change it")
    write(run, path, b"new")
    write(run, path, b"newer")

    (kept,) = Snapshots(tmp_path).runs()
    file = kept.files[str(path)]
    assert file.kept is not None
    assert file.kept.read_bytes() == content
    assert kept.prompt == "change it"
    for one in (tmp_path / "undo").rglob("*"):
        assert stat.S_IMODE(one.stat().st_mode) == (0o700 if one.is_dir() else 0o600)


def test_a_run_that_changed_nothing_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    run = Snapshots(tmp_path).begin("look")
    assert not (tmp_path / "undo").exists()
    write(run, path, b"made")
    path.unlink()
    asyncio.run(run.after_writes([path]))

    assert run.changes == ()
    assert Snapshots(tmp_path).runs() == []


def test_an_edit_that_was_refused_does_not_count(tmp_path: Path) -> None:
    cell = Cell(id="ab12", number=1, kind="code", source="x = 1", execution_count=4)
    run = Snapshots(tmp_path).begin("edit")
    edit(run, cell, "x = 2")
    refused = edit(run, cell, "x = 3")
    asyncio.run(run.not_made(refused))

    assert Snapshots(tmp_path).runs()[0].cells["ab12"].after == "x = 2"
    assert run.changes == (Change(kind="cell", name="ab12", what="edited"),)


@pytest.mark.parametrize("runs", [1, 2])
def test_work_of_the_user_between_two_changes_is_named_before_undoing_them(tmp_path: Path, runs: int) -> None:
    cell = Cell(id="ab12", number=1, kind="code", source="x = 1", execution_count=4)
    other = cell.model_copy(update={"id": "cd34", "execution_count": 5})
    path, own = tmp_path / "a.txt", tmp_path / "own.txt"
    run = Snapshots(tmp_path).begin("edit")
    for one in (cell, other):
        edit(run, one, "x = 2")
    for file in (path, own):
        write(run, file, b"first")
    if runs == 2:
        run = Snapshots(tmp_path).begin("edit again")
    path.write_bytes(b"of the user")
    edit(run, cell.model_copy(update={"source": "x = 'of the user'"}), "x = 3")
    edit(run, other.model_copy(update={"source": "x = 2"}), "x = 3")
    for file in (path, own):
        write(run, file, b"second")

    cells = [one.model_copy(update={"source": "x = 3"}) for one in (cell, other)]
    plan = plan_undo(joined_runs(Snapshots(tmp_path).runs()), cells)
    assert plan.changed_since == ["[4]", "a.txt"]
    assert plan.restored == ["[4]", "[5]", "a.txt (removed)", "own.txt (removed)"]


def rearranged(cells: Sequence[Cell], move: MoveCells) -> list[Cell]:
    rest = [one for one in cells if one.id not in move.cells]
    place = next((at for at, one in enumerate(rest, 1) if one.id == move.after), 0)
    by_id = {one.id: one for one in cells}
    return [*rest[:place], *(by_id[name] for name in move.cells), *rest[place:]]


@pytest.mark.parametrize(
    "runs",
    [
        [[("a", "d")]],
        [[("a", "d")], [("c", None)]],
        [[("a", "b")], [("a", "c")], [("a", "d")]],
        [[], [("b", None), ("d", "b")], [], [("b", "c")]],
        [[("dc", None)], [("ab", None)], [("d", "a")]],
    ],
)
def test_cells_that_several_runs_moved_are_where_they_were_before_the_first(
    tmp_path: Path, runs: list[list[tuple[str, str | None]]]
) -> None:
    cells = [Cell(id=name, number=number, kind="code", source="x = 1") for number, name in enumerate("abcd", 1)]
    for moves in runs:
        run = Snapshots(tmp_path).begin("move")
        edit(run, cells[0], f"x = {len(moves)}")
        for names, after in moves:
            move = MoveCells(cells=tuple(names), after=after)
            asyncio.run(run.before_edits([move], cells))
            cells = rearranged(cells, move)

    plan = plan_undo(joined_runs(Snapshots(tmp_path).runs()), cells)
    for change in plan.edits:
        if isinstance(change, MoveCells):
            cells = rearranged(cells, change)
    assert [one.id for one in cells] == list("abcd")


def test_what_a_crash_cut_off_spoils_no_other_line(tmp_path: Path) -> None:
    cell = Cell(id="ab12", number=1, kind="code", source="x = 1")
    snapshots = Snapshots(tmp_path)
    edit(snapshots.begin("edit"), cell, "x = 2")
    with (tmp_path / "undo" / "0001" / CHANGES).open("ab") as file:
        file.write(b'\n{"type":"cell","entry":2,"cel')
    snapshots.mark(1, "undone")

    (run,) = Snapshots(tmp_path).runs()
    assert run.cells["ab12"].after == "x = 2"
    assert run.undone


def test_the_oldest_runs_are_forgotten_where_all_take_too_much(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"0" * 60_000)
    snapshots = Snapshots(tmp_path, limit=150_000)
    for number in range(4):
        write(snapshots.begin("again"), path, str(number).encode() * 60_000)

    assert [run.number for run in snapshots.runs()] == [3, 4]
    assert snapshots.begin("next").number == 5


def test_a_file_that_is_too_large_is_named_and_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(FILE_LIMIT + 1)
    write(Snapshots(tmp_path).begin("shrink"), path, b"small")

    file = Snapshots(tmp_path).runs()[0].files[str(path)]
    assert file.kept is None
    assert file.problem == "it is larger than 50 MB"
