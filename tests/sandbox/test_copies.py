"""How a copy of the kernel ends, what the kernel is left with, and when none is made. In a real kernel."""

import json
from collections.abc import Iterator

import pytest

from tests.kernel.conftest import kernels, target_of
from tests.kernel.matrix import with_pandas
from tests.kernel.wire import Wire, running_kernel
from tests.patience import patient
from vibe_jupyter.sandbox.availability import machine_refusal
from vibe_jupyter.sandbox.forked_copy import STALL_SECONDS

pytestmark = pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine")

HIDES_THREADS = (
    "not all(hasattr(__import__('ctypes').CDLL(path), 'blas_num_threads') for path in {line.split()[-1] "
    "for line in open('/proc/self/maps') if 'openblas' in line})"
)
"""As that of numpy 2.5, whose wheels name their public functions alone."""


@pytest.fixture(scope="module", params=kernels())
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with running_kernel(with_pandas(target_of(request.param)), tmp_path_factory.mktemp("copies")) as wire:
        wire.run("from tests.sandbox.escape_world import *\nimport numpy as np, pandas as pd")
        wire.cell(wire.send("1 / 0"))  # what formats errors is imported here once, not in every copy
        yield wire


def explored(kernel: Wire, code: str, timeout: float = 5) -> str:
    """What the model reads."""
    return json.loads(kernel.run(f"print(json.dumps(explore({code!r}, {timeout})))").text)


def test_code_sees_every_variable_and_changes_none(kernel: Wire) -> None:
    kernel.run("frame = pd.DataFrame({'x': range(10)}); parts = {'a': [1]}")
    said = explored(kernel, "frame['y'] = 1\nparts['a'].append(2)\nnew = frame.shape[1]\nnew")
    assert said.splitlines()[0].endswith("in a copy of the kernel: nothing was changed")
    assert said.splitlines()[1] == "2"
    assert "names created: new (in the copy only; keep=true changes the kernel itself)" in said
    assert "changed in place: frame (in the copy only; keep=true changes the kernel itself)" in said
    assert kernel.run("print(frame.shape, parts, 'new' in globals())").text == "(10, 1) {'a': [1]} False\n"


def test_output_errors_magics_and_await_are_as_in_the_kernel(kernel: Wire) -> None:
    assert "hello" in explored(kernel, "print('hello')")
    assert "ZeroDivisionError: division by zero" in explored(kernel, "1 / 0")
    assert "42" in explored(kernel, "import asyncio\nawait asyncio.sleep(0.01)\n42")
    assert "loop" in explored(kernel, "%timeit -n1 -r1 pass")
    assert "LOGGED" in explored(kernel, "logging.getLogger('q').warning('LOGGED')")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("open('out.csv', 'w')", "a copy of the kernel may not write out.csv"),
        ("open('/etc/shadow').read()", "a copy of the kernel may not read /etc/shadow"),
        ("!ls", "a copy of the kernel may not start a program"),
        ("%ls -la", "a copy of the kernel may not start a program"),
        ("import multiprocessing; multiprocessing.Lock()", "a copy of the kernel may not "),
        ("import subprocess; subprocess.run(['ls'])", "a copy of the kernel may not start a program"),
        ("import urllib.request; urllib.request.urlopen('http://127.0.0.1:9')", "may not use the network"),
        ("input('name? ')", "a copy of the kernel may not ask for text to be typed"),
        ("import ctypes; ctypes.string_at(0)", "it ended the copy of the kernel that ran it, as it may end the kernel"),
        ("x = []\nwhile True: x.append(bytearray(50_000_000))", "a copy of the kernel"),
        ("bytearray(3_000_000_000)", "a copy of the kernel may not take that much memory"),
        (
            "import mmap\nx = []\nwhile True: x.append(mmap.mmap(-1, 50_000_000)); x[-1].write(bytes(50_000_000))",
            "it needs more memory than a copy of the kernel may have",
        ),
    ],
)
def test_what_a_copy_may_not_do_is_said_in_one_line(kernel: Wire, code: str, why: str) -> None:
    said = explored(kernel, code, 20)
    assert said.startswith("NOT EXPLORED: ")
    assert why in said
    assert kernel.run("print(children())").text == "[]\n"


def test_a_write_to_what_was_open_before_is_a_reason_to_ask(kernel: Wire) -> None:
    kernel.run("import sqlite3\nbase = sqlite3.connect(f'{P}/open.db')\nlog = open(f'{P}/open.txt', 'w')")
    for code in ("base.execute('create table t (x)')", "log.write('a line')\nlog.flush()"):
        assert explored(kernel, code).startswith("NOT EXPLORED: a copy of the kernel may not do this: ")
    kernel.run("base.close()\nlog.close()\ndel base, log")


def test_a_file_larger_than_the_memory_of_a_copy_can_be_mapped(kernel: Wire) -> None:
    kernel.run("large = f'{P}/large.bin'\nwith open(large, 'wb') as file: file.truncate(8 << 30)")
    assert explored(kernel, "np.memmap(large, mode='r').shape").startswith("ok")
    kernel.run("os.remove(large)")


def test_an_attempt_that_the_code_deals_with_is_told(kernel: Wire) -> None:
    said = explored(kernel, "try:\n    open('cache.bin', 'w')\nexcept OSError:\n    pass\n7")
    assert said.splitlines()[1:] == ["7", "not allowed in the copy: write cache.bin"]


@pytest.mark.parametrize(("tried", "last"), [("ab", "b"), ("abc", "c"), ("aba", "a"), ("aab", "b"), ("abcb", "b")])
def test_of_several_attempts_the_last_is_said_to_have_ended_the_code(kernel: Wire, tried: str, last: str) -> None:
    caught = "".join(f"try: open('{name}.bin', 'w')\nexcept OSError: pass\n" for name in tried[:-1])
    said = explored(kernel, f"{caught}open('{tried[-1]}.bin', 'w')")
    assert said.startswith(f"NOT EXPLORED: a copy of the kernel may not write {last}.bin")


def test_code_that_takes_too_long_ends_and_what_it_printed_is_told(kernel: Wire) -> None:
    said = explored(kernel, "print('begun')\nwhile True: pass", 2)
    assert said.startswith("timeout after 2 s")
    assert "begun" in said
    stubborn = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
    assert explored(kernel, stubborn, 0.2).startswith("timeout after 0.2 s")
    assert kernel.run("print(children())").text == "[]\n"


def test_a_copy_that_waits_for_a_lock_nobody_holds_ends_long_before_its_time_is_over(kernel: Wire) -> None:
    kernel.run("import threading, time; held = threading.Lock(); held.acquire()")
    code = "began = time.monotonic(); print(explore('held.acquire()', 90)); print(time.monotonic() - began)"
    said, seconds = kernel.run(code).text.splitlines()
    assert said == "NOT EXPLORED: in a copy of the kernel it waited for what is not there"
    assert STALL_SECONDS < float(seconds) < 30


def test_linear_algebra_in_a_copy_starts_no_thread_that_only_waits(kernel: Wire) -> None:
    if kernel.run(f"print({HIDES_THREADS})").text == "True\n":
        pytest.skip("this OpenBLAS hides the number of its threads")
    count = "(square @ square).sum(); open('/proc/self/status').read().partition('Threads:')[2].split()[0]"
    kernel.run("square = np.ones((500, 500)); (square @ square).sum()")
    alone_and_deadline = "'2'"
    assert kernel.run(f"print(explore({count!r}))").text.strip().endswith(alone_and_deadline)


def test_copies_run_side_by_side(kernel: Wire) -> None:
    kernel.run("import time")
    together = """
began = time.monotonic()
others = [explore.start('time.sleep(1)') for _ in range(4)]
explore('time.sleep(1)')  # meanwhile the main thread makes the others
print([one.result(20).is_error for one in others], time.monotonic() - began)
"""
    failed, _, seconds = kernel.run(together).text.rpartition(" ")
    assert failed == "[False, False, False, False]"
    assert float(seconds) < patient(3.5)


def test_a_copy_leaves_no_descriptor_however_it_ends(kernel: Wire) -> None:
    count = "len(os.listdir('/proc/self/fd'))"
    ends = ("1", "import os; os._exit(3)", "open('new.txt', 'w')", "1 / 0")
    assert (
        kernel.run(f"explore('1'); before = {count}\nfor one in {ends}: explore(one)\nprint({count} - before)").text
        == "0\n"
    )


def test_every_system_call_that_is_not_listed_is_refused(kernel: Wire) -> None:
    kernel.run("from vibe_jupyter.sandbox import call_numbers, seccomp")
    # Linux lets the two of its own probes (335, 336) pass every filter, and kills who calls them by hand.
    # flock succeeds without a lock (test_locks.py).
    names = "(*seccomp.HARMLESS, *seccomp.conditional_calls(0), *seccomp.ABSENT, 'flock')"
    known = f"{{335, 336, *map(call_numbers.this_processor().numbers.get, {names})}}"
    code = f"""
refused, others = 0, []
for number in range(600):
    if number not in {known}:
        ctypes.set_errno(0)
        value = L.syscall(ctypes.c_long(number), 0, 0, 0, 0, 0, 0)
        if (value, ctypes.get_errno()) == (-1, 1): refused += 1
        else: others.append(number)
refused, others
"""
    said = explored(kernel, code)
    assert said.startswith("ok"), said
    assert said.splitlines()[1].endswith(", [])")
    assert int(said.splitlines()[1][1:].partition(",")[0]) > 400


@pytest.mark.attack("forged reports", always=True)
def test_the_report_may_be_forged_and_says_only_what_the_code_says(kernel: Wire) -> None:
    """As docs/trust.md says: a copy is read, never believed. What it writes into its report changes nothing."""
    forge = "import os\nfor fd in range(3, 100):\n    try: os.write(fd, b'+{}')\n    except OSError: pass\nos._exit(0)"
    assert (
        explored(kernel, forge) == "NOT EXPLORED: it ended the copy of the kernel that ran it, as it may end the kernel"
    )


@pytest.mark.requirement("permission.data.copies-forget")
def test_a_value_bound_to_a_secret_name_is_redacted_in_the_report_and_then_forgotten(kernel: Wire) -> None:
    said = explored(kernel, "api_key = 'Zq8-' + 'rT5vLw2xKd9'\nprint(api_key)")
    assert said.splitlines()[1] == "[redacted: API key, 15 characters]"
    assert kernel.run("print('Zq8-rT5vLw2xKd9' in explore.secrets())").text == "False\n"


def test_a_pool_that_a_copy_would_wait_for_is_a_reason_to_ask(kernel: Wire) -> None:
    pool = """
import threading
stop = threading.Event()
def work():
    ctypes.CDLL(None).prctl(15, b"polars-0", 0, 0, 0)
    named.set(); stop.wait(60)
named = threading.Event()
threading.Thread(target=work, daemon=True).start(); named.wait(5)
print(explore('1')); stop.set()
"""
    said = kernel.run(pool).text
    assert said.startswith("NOT EXPLORED: no copy of the kernel can be made: threads of a library run")
    assert "polars-0" in said


def test_a_project_too_large_to_look_through_is_a_reason_to_ask(kernel: Wire) -> None:
    kernel.run("from vibe_jupyter.sandbox import readable; most, readable.MOST_ENTRIES = readable.MOST_ENTRIES, 3")
    said = explored(kernel, "1")
    kernel.run("readable.MOST_ENTRIES = most")
    assert said.startswith("NOT EXPLORED: no copy of the kernel can be made: the project has more than 3 files")
