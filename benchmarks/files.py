"""What the file tools cost: ratios within one run, never absolute times.

G1  grep on a tree of 20,000 files, a pattern that is rare, frequent or nowhere, against `rg` itself
G2  the same by the search in Python, for machines without ripgrep
R1  read_file of a page of a file of 1 GiB: MiB of memory it adds
W1  search_replace of one line in a file of 1 MB, with its check and its card

Run it with ``PYTHONPATH=. python benchmarks/files.py``.
"""

import argparse
import asyncio
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.report import Row, report, size
from vibe_jupyter.files.access import FileAccess
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.tools.contract import ToolContext
from vibe_jupyter.tools.grep import GrepArgs, GrepTool
from vibe_jupyter.tools.read_file import ReadFileArgs, ReadFileTool
from vibe_jupyter.tools.search_replace import SearchReplaceArgs, SearchReplaceTool

FOLDERS: Final = size(400, 4)
FILES: Final = 50
"""Files of one folder."""
LINES: Final = 60
REPEATS: Final = size(9, 1)
PYTHON_REPEATS: Final = size(3, 1)
HUGE: Final = size(2**30, 2**22)
"""Bytes."""
PATTERNS: Final = {"rare": "needle", "frequent": "word1 ", "absent": "no_such_word"}
CONTEXT: Final = ToolContext(call_id="bench", progress=print, cancelled=lambda: False)


def main() -> int:
    """Print the table; 1 where an aim is missed."""
    argparse.ArgumentParser(description="What the file tools cost.").parse_args()
    with tempfile.TemporaryDirectory(prefix="vibe-files-") as folder:
        root = Path(folder)
        table = [_memory_row(root), _edit_row(root)]
        if shutil.which("rg") is None:
            print("ripgrep (rg) is not installed: nothing to compare the search with")
        else:
            _plant(root / "tree")
            table += _search_rows(root / "tree")
    return report(table)


def _plant(root: Path) -> None:
    chance = random.Random(7)
    words = [f"word{number}" for number in range(2_000)]
    for folder in range(FOLDERS):
        place = root / f"p{folder % 20}" / f"q{folder}"
        place.mkdir(parents=True)
        for number in range(FILES):
            lines = [" ".join(chance.choices(words, k=8)) for _ in range(LINES)]
            if (folder * FILES + number) % FOLDERS == 0:
                lines.append("a needle here")
            (place / f"f{number}.py").write_text("\n".join(lines), encoding="utf-8")


def _search_rows(root: Path) -> list[Row]:
    tool = GrepTool(Workspace(root))
    rows: list[Row] = []
    for name, pattern in PATTERNS.items():
        command = ["rg", "--no-config", "--line-number", "-e", pattern, "--", str(root)]
        ours, floor = _in_turns(
            lambda pattern=pattern: asyncio.run(tool.run(GrepArgs(pattern=pattern), CONTEXT)),
            lambda command=command: subprocess.run(command, stdout=subprocess.DEVNULL, check=False),
            REPEATS,
        )
        rows.append(
            Row(f"G1 grep, 20,000 files, {name} pattern / rg ({floor * 1000:.0f} ms of CPU)", ours / floor, 1.5, "x")
        )
    path, os.environ["PATH"] = os.environ["PATH"], "/nowhere"
    try:
        seconds = [
            _seconds(lambda: asyncio.run(tool.run(GrepArgs(pattern="needle"), CONTEXT))) for _ in range(PYTHON_REPEATS)
        ]
    finally:
        os.environ["PATH"] = path
    return [*rows, Row("G2 the same without ripgrep, rare pattern", statistics.median(seconds), 10, "s of CPU")]


def _memory_row(root: Path) -> Row:
    """Peak memory only grows: this comes first."""
    with (root / "huge.txt").open("wb") as file:
        file.write(b"a line of text\n" * 10_000)
        file.truncate(HUGE)
    (root / "small.txt").write_text("x", encoding="utf-8")
    tool = ReadFileTool(Workspace(root))
    asyncio.run(tool.run(ReadFileArgs(path="small.txt"), CONTEXT))
    before = _peak()
    asyncio.run(tool.run(ReadFileArgs(path="huge.txt", offset=5_000), CONTEXT))
    return Row("R1 read_file, a page of a file of 1 GiB: memory it adds", _peak() - before, 8, "MiB")


def _peak() -> float:
    """MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def _edit_row(root: Path) -> Row:
    text = "".join(f"line {number} of a file\n" for number in range(45_000))
    (root / "edited.txt").write_text(text, encoding="utf-8")
    tool = SearchReplaceTool(FileAccess(Workspace(root)))
    turns = iter(range(10 * REPEATS))

    def edit() -> None:
        turn = next(turns)
        old, new = (f"line 20000 of {'a file' if number == 0 else number}\n" for number in (turn, turn + 1))
        args = SearchReplaceArgs(file_path="edited.txt", old_string=old, new_string=new)
        asyncio.run(tool.precheck(args))
        tool.preview(args)
        asyncio.run(tool.run(args, CONTEXT))

    seconds = [_seconds(edit) for _ in range(REPEATS)]
    return Row(
        "W1 search_replace in a file of 1 MB: checked, shown and done",
        statistics.median(seconds) * 1000,
        100,
        "ms of CPU",
    )


def _in_turns(ours: Callable[[], object], floor: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Medians in seconds, rows taking turns; the first round is not counted."""
    times: list[tuple[float, float]] = [(_seconds(ours), _seconds(floor)) for _ in range(repeats + 1)]
    return statistics.median(one for one, _ in times[1:]), statistics.median(other for _, other in times[1:])


def _seconds(work: Callable[[], object]) -> float:
    """CPU of this process and of those that it started and that ended."""
    before = _cpu()
    work()
    return _cpu() - before


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    sys.exit(main())
