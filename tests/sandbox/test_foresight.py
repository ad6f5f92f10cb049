"""What the card says code would change, found out in copies of the kernel before the click. Real kernels."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import WITH_PANDAS
from tests.notebook.test_agent import ClickedPage, end, prompt
from tests.patience import patient
from tests.sandbox.test_exploring_runs import ON
from tests.tiers import further
from vibe_jupyter.notebook.tools.foresight import SECONDS
from vibe_jupyter.sandbox.availability import machine_refusal, overlay_refusal
from vibe_jupyter.sandbox.landlock import landlock_version
from vibe_jupyter.testing import call, say

pytestmark = [
    pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine"),
    pytest.mark.xdist_group("exploring"),
]
IN_NO_HURRY = f"from vibe_jupyter.notebook.tools import foresight\nforesight.SECONDS = {patient(SECONDS):.1f}"
"""Run in a kernel: its cards wait longer for the copies on a busy machine. How long they take is measured elsewhere."""
WORLD = "import pandas as pd\nframe = pd.DataFrame({'x': [1, 2, None]})\nitems = [1]\nn = 1\nclass Kept: pass"
"""What is there before each of the snippets."""
EFFECTS = {
    "clean = frame.dropna(); items.append(2); del n; other = 1; third = 2": [
        *("clean: new, pandas DataFrame 2 × 1", "items: list of 1 item [1] → list of 2 items [1, 2]", "n: removed"),
        *("other: new", "third: new"),
    ],
    "frame = frame.dropna(); n = n + 1; import random; random.seed(1); drawn = random.random()": [
        *("frame: 3 → 2 rows", "n: int", "drawn: new"),
    ],
    "frame['y'] = 1": ["frame: column y added"],
    "frame['x'] = frame.x.fillna(0).astype('int64')": ["frame: x float64 → int64"],
    "frame = frame.rename(columns={'x': 'z'})": ["frame: column z added, column x removed"],
    "m = 1\n1 / 0": ["raises ZeroDivisionError"],
    "import socket; socket.create_connection(('127.0.0.1', 9))": ["in a trial run it wanted to use the network"],
    "try:\n    n = open('/etc/hostname').read()\nexcept OSError:\n    n = 2": ["it wanted to read /etc/hostname"],
    "import os; n = os.getenv('FORESIGHT_API_KEY', 'none')": [
        "to read the environment variable FORESIGHT_API_KEY",
    ],
    "frame = pd.DataFrame({'x': [1, 2, None]}); items = [1]; n = 2": [
        "in a trial run: frame unchanged (3 × 1); items unchanged; n: int 1 → int 2",
    ],
    "frame = pd.DataFrame({'x': [1, 2.5, None]})": ["in a trial run: frame: changed, pandas DataFrame 3 × 1"],
    "import asyncio\nn = asyncio.get_running_loop().is_running(); task = asyncio.create_task(asyncio.sleep(0))\n"
    "asyncio.run(asyncio.sleep(0))": ["n: int 1 → bool True", "task: new, ", "raises RuntimeError"],
    "import asyncio\nn = await asyncio.gather(*[asyncio.sleep(0, v) for v in (1, 2)])": ["n: int 1 → list of 2 items"],
    "class Kept: pass": ["Kept: set again"],
    "frame.iat[1, 0] = 5.0; n = 2": ["frame: changed, pandas DataFrame 3 × 1"],
}
WRITTEN = {
    "open('made.txt', 'w').write('a\\nb\\n'); open('empty', 'w'); import pathlib; pathlib.Path('new').touch()\n"
    "import os; os.remove('vibe/config.toml')": [
        *("in a trial run: would ", "write made.txt (4 bytes, 2 lines)", "write empty (empty)", "write new (empty)"),
        "delete vibe/config.toml",
    ],
    "frame.to_csv('made.txt')\nn = 2": ["would write made.txt (18 bytes, 4 lines); n: int 1 → int 2"],
    "with open('vibe/config.toml', 'a') as file: file.write('# more\\n')": ["would change vibe/config.toml (+1 line)"],
    "open('made.txt', 'w').write('x')\n1 / 0": [
        "would write made.txt (1 byte, 1 line); raises ZeroDivisionError",
    ],
    "open('made.txt', 'w').write('x'); open('../made.txt', 'w')": ["it wanted to write ../made.txt"],
    "import shutil\nshutil.copy(b'vibe/config.toml', b'kept.toml'); n = 2": ["write kept.toml (", "n: int 1 → int 2"],
    "open('vibe/config.toml', 'a').close(); n = 2": ["in a trial run: n: int 1 → int 2"],
    "open('made.txt', 'wb').write(bytes(200_000_000))": ["it wanted to write made.txt"],
}
"""What of the files of the project; where the copies cannot write, what was tried."""
SILENT = (
    further("import time; now = 'a' * (time.monotonic_ns() % 1_000_003)"),
    further("import os; drawn = list(os.urandom(os.urandom(1)[0] + 300 * os.urandom(1)[0]))"),
    "import secrets; token_list = [0] * secrets.randbelow(10**6)",
    "import pandas; drawn = [0] * (pandas.Timestamp('NOW'.lower()).value // 1000 % 100_003)",
    "import time; n = 2 if time.time() > 0 else 3",
    "import os; n = 2 if getattr(os, 'get' + 'pid')() else 3",
    "import time; time.sleep(60)",
    further("while True: pass"),
    "import os; os._exit(0)",
    further("import os; os.kill(os.getpid(), 9)"),
    "!touch made.txt",
)
"""What differs each time, does not end, breaks off, or cannot be tried."""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(WITH_PANDAS, tmp_path_factory.mktemp("foresight")) as session:
        session.wire.run(f"{ON}\n{IN_NO_HURRY}\nos.environ['FORESIGHT_API_KEY'] = 'key-of-the-tests'")
        session.wire.run(f"{WORLD}\n_ = frame.to_csv(), frame.dropna()")  # imported here once, not in every copy
        yield session


def reason_on_card(session: Session, code: str) -> str:
    """Why the card asks, for code that is then denied."""
    session.run(f"%vibe reset\n{WORLD}")
    session.model.will_reply(call("run_code", code=code, keep=True), say("Denied."))
    request = session.wire.send("%%vibe\nrun it")
    view = session.view(request)
    approval = view.card()
    html = view.wait_for(approval)
    view.command(type="reject", approval_id=approval)
    session.wire.cell(request)
    found = re.findall(r'class="vibe-why">(.*?)</span>', html, re.DOTALL)
    return found[-1]


@pytest.mark.requirement("ui.approval.equal-values")
@pytest.mark.parametrize("code", EFFECTS)
def test_the_card_says_what_the_code_would_change_and_nothing_is_changed(asked: Session, code: str) -> None:
    said = reason_on_card(asked, code)
    assert [words for words in EFFECTS[code] if words not in said] == []
    look = "import os\nprint(frame.shape, items, n, os.path.exists('made.txt'), os.path.exists('vibe/config.toml'))"
    assert asked.run(look).text == "(3, 1) [1] 1 False True\n"


@pytest.mark.requirement("ui.approval.own-modules")
def test_code_that_is_tried_imports_from_the_folder_of_the_notebook(asked: Session) -> None:
    (asked.folder / "own_helpers.py").write_text("def doubled(x):\n    return 2 * x\n", encoding="utf-8")
    said = reason_on_card(asked, "from own_helpers import doubled\nn = doubled(4)")
    assert "in a trial run: n: int 1 → int 8; doubled: new, function doubled(x)" in said


@pytest.mark.requirement("ui.approval.own-modules")
@pytest.mark.parametrize("look", ["import os\nFOUND = os.getpid() == 1", "from time import time\nFOUND = time() < 0"])
def test_an_own_module_that_looks_for_the_copy_as_it_is_imported_is_noticed(asked: Session, look: str) -> None:
    (asked.folder / "own_process.py").write_text(f"import decimal\n{look}\n", encoding="utf-8")
    assert "in a trial run" not in reason_on_card(asked, "import own_process\nn = 2 if own_process.FOUND else 3")


MOUNT = """
mount -t tmpfs none "$1"
mkdir "$1/below" "$1/above" "$1/work" "$1/both"
mount -t overlay none -o "lowerdir=$1/below,upperdir=$1/above,workdir=$1/work" "$1/both"
"""
JUDGES_CUTTING = 3
"""Version of Landlock without which a copy has no files of its own."""


def test_copies_have_files_of_their_own_wherever_the_system_mounts_an_overlay(tmp_path: Path) -> None:
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    shell = ["unshare", "--mount", *as_root, "sh", "-e", "-c", MOUNT, "sh", str(tmp_path)]
    mounts = subprocess.run(shell, capture_output=True, check=False, timeout=30).returncode == 0
    assert (overlay_refusal() == "") == (mounts and landlock_version() >= JUDGES_CUTTING)


@pytest.mark.skipif(bool(overlay_refusal()), reason="no overlay on this machine")
@pytest.mark.parametrize("code", WRITTEN)
def test_the_card_says_which_files_the_code_would_write_and_none_is_written(asked: Session, code: str) -> None:
    look = f"{WORLD}\nimport os\nprint(frame.shape, items, n, sorted(os.listdir()), open('vibe/config.toml').read())"
    before = asked.run(look).text
    said = reason_on_card(asked, code)
    assert [words for words in WRITTEN[code] if words not in said] == []
    assert asked.run(look.removeprefix(WORLD)).text == before


def test_the_card_names_what_undo_would_not_restore_also_where_nothing_is_tried(asked: Session) -> None:
    asked.run("import threading\nlock = threading.Lock()")
    said = reason_on_card(asked, "lock.locked(); items.append(2)")
    assert "undo would not restore lock · in a trial run: items: list of 1 item" in said
    assert "undo would not restore lock" in reason_on_card(asked, "lock.locked(); import time; time.sleep(60)")
    assert "undo" not in reason_on_card(asked, "frame = frame.dropna()")


@pytest.mark.parametrize("code", SILENT)
def test_what_differs_each_time_or_cannot_be_tried_is_not_told(asked: Session, code: str) -> None:
    assert "in a trial run" not in reason_on_card(asked, code)


def test_what_the_card_says_is_what_happens(asked: Session) -> None:
    asked.run(f"%vibe reset\n{WORLD}")
    asked.model.will_reply(
        call("run_code", code="frame['y'] = frame.x * 2\nframe = frame.dropna()", keep=True), say("Kept.")
    )
    request = asked.wire.send("%%vibe\nrun it")
    view = asked.view(request)
    approval = view.card()
    assert "frame: 3 → 2 rows, column y added" in view.wait_for(approval)
    view.command(type="approve", approval_id=approval)
    asked.wire.cell(request)
    assert asked.run("print(frame.shape)").text == "(2, 2)\n"


def test_cells_that_are_to_run_are_tried_too_and_not_where_the_settings_want_no_copies(asked: Session) -> None:
    page = ClickedPage(asked.wire, "part = frame.head(1)", "rest = frame.tail(2)", "%%time\nshort = 1")
    cells = [cell.id for cell in page.cells]
    for setting, made, words in (
        ("sandbox", call("insert_cell", source="clean = frame.dropna()", run=True), "in a trial run: clean: new"),
        ("sandbox", call("run_cells", cells=cells[:2]), "part: new, pandas DataFrame 1 × 1"),
        (
            "sandbox",
            call("edit_cell", cell=cells[0], old_string="head(1)", new_string="head(2)", run=True),
            "part: new, pandas DataFrame 2 × 1",
        ),
        ("sandbox", call("edit_cell", cell=cells[0], old_string="head(1)", new_string="head(2)"), ""),
        ("sandbox", call("run_cells", cells=cells), ""),
        ("ask", call("run_cells", cells=cells[:2]), ""),
    ):
        asked.wire.run(ON.replace("'sandbox'", f"{setting!r}"))
        asked.run(f"%vibe reset\n{WORLD}")
        asked.model.will_reply(call("read_notebook"), made, say("Denied."))
        cell = prompt(page, "%%vibe\nrun it")
        said = page.deny(cell)
        end(page, cell)
        assert words in said
        assert words or "in a trial run" not in said
    asked.wire.run(ON)


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        *[("open('made.txt', 'w')", "write made.txt")] * 2,
        ("import shutil; shutil.rmtree('ipython')", "delete ipython/profile_default/"),
        ("import shutil; shutil.move('vibe', 'moved')", "rename vibe"),  # it then copies, as on another disk
    ],
)
def test_where_copies_cannot_write_the_card_says_what_the_code_wanted_first(
    asked: Session, code: str, wanted: str
) -> None:
    asked.run("import vibe_jupyter.sandbox.confinement as limits\nlaid, limits.lay_over = limits.lay_over, None")
    said = reason_on_card(asked, code)
    asked.run("limits.lay_over = laid")
    assert f"in a trial run it wanted to {wanted}" in said
    assert "make the folder" not in said
