"""Which files of a project a copy of the kernel changed: how many are listed, and in what order."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vibe_jupyter.sandbox.file_changes import MOST_CHANGES, TooManyChanges, file_changes
from vibe_jupyter.sandbox.overlay import ProjectOverlay

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are overlays on Linux alone")


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Callable[[], ProjectOverlay]]:
    """The layers in plain folders, whose project holds all that the upper one does."""
    opened: list[int] = []
    for name in ("original", "changed"):
        (tmp_path / name).mkdir()

    def look() -> ProjectOverlay:
        layers = [os.open(tmp_path / name, os.O_RDONLY | os.O_DIRECTORY) for name in ("original", "changed")]
        opened.extend(layers)
        return ProjectOverlay(str(tmp_path / "changed"), (), *layers, room=0)

    yield look
    for descriptor in opened:
        os.close(descriptor)


@pytest.mark.parametrize("folders", [1, 3])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_as_many_changes_are_listed_as_can_be_in_the_order_of_their_paths(
    tmp_path: Path, overlay: Callable[[], ProjectOverlay], folders: int, more: int
) -> None:
    paths = [f"folder {number % folders}/{number}.txt" for number in range(MOST_CHANGES + more)]
    for path in paths:
        (tmp_path / "changed" / path).parent.mkdir(exist_ok=True)
        (tmp_path / "changed" / path).write_text("x\n", encoding="utf-8")
    if more > 0:
        with pytest.raises(TooManyChanges):
            file_changes(overlay())
        return
    found = file_changes(overlay())
    assert [change.path for change in found] == sorted(paths)
    assert {(change.deed, change.size, change.lines) for change in found} == {("write", 2, 1)}


@pytest.mark.requirement("ui.approval.lost-files")
def test_what_is_replaced_by_an_entry_of_another_kind_is_named_as_deleted(
    tmp_path: Path, overlay: Callable[[], ProjectOverlay]
) -> None:
    original, changed = tmp_path / "original", tmp_path / "changed"
    for name in ("empty folder", "full folder", "link"):
        (original / name).write_text("lost", encoding="utf-8")
    for name in ("file", "kept"):
        (original / name).mkdir()
        (original / name / "lost.txt").write_text("lost", encoding="utf-8")
    for name in ("empty folder", "full folder", "kept"):
        (changed / name).mkdir()
    (changed / "link").symlink_to("file")
    for name in ("file", "full folder/new.txt", "kept/lost.txt"):
        (changed / name).write_text("new", encoding="utf-8")
    assert [(change.deed, change.path) for change in file_changes(overlay())] == [
        *(("delete", "empty folder"), ("make the folder", "empty folder")),
        *(("delete the folder", "file"), ("write", "file")),
        *(("delete", "full folder"), ("write", "full folder/new.txt")),
        ("change", "kept/lost.txt"),
        *(("delete", "link"), ("link", "link")),
    ]
