"""What deciding on a shell command costs.

D1  commands of every day and harmful ones, each at its quickest of five
D2  one command of 100 kB, the worst of several shapes
D3  the first decision of a process: importing the grammars

Run it with ``PYTHONPATH=. python benchmarks/decisions.py``.
"""

import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.report import Row, report, size
from vibe_jupyter.files.workspace import Workspace

ROOT: Final = Path(__file__).parents[1]
CORPUS: Final = ROOT / "tests" / "corpora" / "bash_permission.jsonl"
ROUNDS: Final = size(5, 1)
SIZE: Final = size(100_000, 1_000)
"""Characters of a long command."""
SHAPES: Final = {
    "one word": "echo " + "a" * SIZE,
    "many words": "echo " + "a " * (SIZE // 2),
    "many commands": "ls;" * (SIZE // 3),
    "many pipes": "ls -l | wc && " * (SIZE // 14),
    "open quotes": "'" * (SIZE - 1),
    "nested substitutions": "$(" * (SIZE // 2),
    "nested expansions": "${a" * (SIZE // 3),
    "nested arrays": "a=(" * (SIZE // 3),
    "here-documents": "<<a " * (SIZE // 4),
    "globs": "ls " + "*a" * (SIZE // 2),
    "at the limit, words": "echo " + "a " * 1_990,
    "at the limit, quotes": "echo " + "''" * 9_900,
    "at the limit, globs": "ls " + "*[1-4]/*y " * 2,
    "at the limit of what nests": "a=(" * 190 + "x" * 4_000,
}


def main() -> int:
    """Print the table; 1 where an aim is missed."""
    return report([_first(), *_decisions()])


def _first() -> Row:
    started = time.process_time()
    importlib.import_module("vibe_jupyter.permissions.shell.judge")
    return Row("D3 importing the policy of the shell", (time.process_time() - started) * 1_000, 150, "ms of CPU")


def _decisions() -> Sequence[Row]:
    policy: Any = importlib.import_module("vibe_jupyter.permissions.shell.judge")
    shell = policy.ShellState(path="/usr/local/bin:/usr/bin:/bin", locale="C.UTF-8")
    commands = [json.loads(line)["command"] for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    commands = size(commands, commands[:10])
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(_project(Path(folder)))

        def seconds(command: str) -> float:
            started = time.process_time()
            policy.judge_command(command, workspace, shell)
            return time.process_time() - started

        times = sorted(min(seconds(command) for _ in range(ROUNDS)) for command in commands)
        shapes = {name: min(seconds(shape) for _ in range(ROUNDS)) for name, shape in SHAPES.items()}
    worst = max(shapes, key=lambda name: shapes[name])
    return [
        Row(f"D1 {len(commands)} commands, 50 of 100", times[len(times) // 2] * 1_000, 5, "ms of CPU"),
        Row(f"D1 {len(commands)} commands, 95 of 100", times[len(times) * 95 // 100] * 1_000, 5, "ms of CPU"),
        Row(f"D2 long commands, the worst ({worst})", shapes[worst] * 1_000, 100, "ms of CPU"),
    ]


def _project(folder: Path) -> Path:
    """A repository with a thousand files."""
    for number in range(1_000):
        place = folder / f"d{number % 20}" / f"f{number}.py"
        place.parent.mkdir(exist_ok=True)
        place.write_text("x\n", encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(folder)], check=True, timeout=60)
    subprocess.run(["git", "-C", str(folder), "add", "-A"], check=True, timeout=60)
    return folder


if __name__ == "__main__":
    sys.exit(main())
