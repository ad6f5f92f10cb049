"""ipyflow itself, loaded by the user: what it saw a cell read is known of the cell."""

import json
import os
import subprocess
import sys
from typing import Final

import pytest

from tests.kernel.matrix import ROOT, with_packages
from tests.patience import patient

PACKAGES: Final = (
    *("ipyflow>=0.0.231,<0.1", "ipyflow-core>=0.0.231,<0.1", "pyccolo", "astunparse", "nest_asyncio", "six", "wheel"),
    *("black", "mypy_extensions", "pathspec", "platformdirs", "click", "pytokens"),
)
"""It and all it imports."""
WAIT: Final = patient(120)
"""Seconds given to the whole."""
PROGRAM: Final = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from vibe_jupyter.context.executions import ExecutionLog
from vibe_jupyter.kernel.ipython_types import user_names
from vibe_jupyter.protocol import Cell

shell = InteractiveShell.instance()
shell.history_manager.enabled = False
if "ipyflow" in sys.argv:
    shell.run_line_magic("load_ext", "ipyflow")
log = ExecutionLog(shell, lambda: user_names(shell.user_ns, shell.user_ns_hidden))
sources = {
    "tools": "TOOLS = {}\\ndef register(one):\\n    TOOLS[one.__name__] = one\\n    return one",
    "rate": "k = 2",
    "scale": "@register\\ndef scale(v):\\n    return v * k",
    "use": "print(TOOLS['scale'](10))",
    "end": "print('end')",
}
counts = {}
def run(name):
    counts[name] = shell.run_cell(sources[name], store_history=True, cell_id=name).execution_count
for name in sources:
    run(name)
sources["rate"] = "k = 3"
run("rate")
cells = [
    Cell(id=name, number=number, kind="code", source=source, execution_count=counts[name], state="fresh")
    for number, (name, source) in enumerate(sources.items(), start=1)
]
print(json.dumps({name: [status.state, status.why] for name, status in log.standings(cells).items()}))
"""


def standings(*arguments: str) -> dict[str, list[str]]:
    folder = with_packages("ipyflow", *PACKAGES).first_on_path
    program = f"import sys; sys.path.append({str(folder)!r})\n{PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=True,
    )
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


@pytest.mark.matrix
def test_a_cell_that_reads_what_no_code_shows_is_stale_where_ipyflow_saw_it() -> None:
    assert standings()["use"] == ["fresh", ""]

    traced = standings("ipyflow")

    assert traced["use"] == ["stale", "k changed by #2 [6]"]
    assert {name: state for name, (state, _) in traced.items() if name != "use"} == dict.fromkeys(
        ("tools", "rate", "scale", "end"), "fresh"
    )
