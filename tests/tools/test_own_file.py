"""The user's own small files: one writer at a time."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vibe_jupyter.files.atomic_write import locked_file, replace_text


def test_writers_wait_for_each_other_and_not_for_a_lock_that_a_dead_process_left(tmp_path: Path) -> None:
    place = tmp_path / "kept.txt"
    replace_text(place, "0")
    place.with_name("kept.txt.lock").touch()

    def count(_: int) -> None:
        with locked_file(place):
            replace_text(place, str(int(place.read_text(encoding="utf-8")) + 1))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(count, range(40)))

    assert place.read_text(encoding="utf-8") == "40"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.txt", "kept.txt.lock"]
