"""What a copy of the kernel costs: a plain run of code beside the same in a copy, by the size of the user's data.

CPU of the copy, and of the kernel while it waits for it; the best of some rounds, since the machine is shared. Then how
long a click of the page waits for its answer (a comm message that is sent back) while the agent's code computes in a
copy, with the larger data: the first clicks come while the kernel forks. It is the second prompt of its kernel: at the
first, a click also waits until the view is there.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.report import Row, report, size
from tests.app.conftest import running_session
from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import Wire, running_kernel
from vibe_jupyter.testing import call, say

SIZES: Final = size((10, 160), (1, 2))
"""Megabytes of the user's data."""
ROUNDS: Final = size(10, 1)
AIM: Final = 80.0
"""Milliseconds of CPU more than a plain run takes, for both pieces of code."""
CODE: Final = ("1 + 1", "data.mean()")
CLICKS: Final = size(60, 4)
"""Comm messages while a copy computes."""
COMPUTES: Final = size(4.0, 1.0)
"""Seconds for which it does."""
LATENCY_AIM: Final = 50.0
"""Milliseconds, for each click, more than the slowest takes while nothing runs."""
_ECHO: Final = """
def echo(comm, message):
    comm.on_msg(lambda message: comm.send(message['content']['data']))
get_ipython().kernel.comm_manager.register_target('echo', echo)
"""
_MEASURE: Final = """
import time, json
def measured(code):
    rounds = []
    for _ in range({rounds}):
        before = time.process_time(); explore.in_kernel(code); plain = time.process_time() - before
        before = time.process_time(); told = explore.result(code); waited = time.process_time() - before
        rounds.append([1e3 * plain, 1e3 * told.details["cpu_seconds"], 1e3 * waited])
    return [min(column) for column in zip(*rounds)]
print(json.dumps(measured({code!r})))
"""
_WITH_FILES: Final = """
import time, json
from vibe_jupyter.notebook.tools.exploration import CodeRun
def of_trial(writes):
    rounds = []
    for _ in range({rounds}):
        began = time.monotonic()
        run = lambda runner: CodeRun(runner.run("1 + 1", keep=True, timeout=5, on_output=str), (), "")
        told = explore.wait(lambda context: explore.exploration.trial("1 + 1", 5, context, run, writes=writes))
        rounds.append([1e3 * told.cpu_seconds, 1e3 * (time.monotonic() - began)])
    return [min(column) for column in zip(*rounds)]
print(json.dumps([*of_trial(False), *of_trial(True)]))
"""


def measure(wire: Wire, code: str) -> tuple[float, float, float]:
    """Milliseconds of CPU: a plain run, the copy, the kernel beside it."""
    plain, copy, kernel = json.loads(wire.run(_MEASURE.format(rounds=ROUNDS, code=code)).text)
    return plain, copy, kernel


def measure_latency() -> tuple[list[float], list[float]]:
    """Milliseconds of each click: while nothing runs, and while a copy of the kernel computes."""
    with tempfile.TemporaryDirectory() as folder, running_session(INSTALLED, Path(folder)) as session:
        wire = session.wire
        wire.run("import os, numpy as np; os.environ['VIBE_SANDBOX__EXPLORE'] = 'sandbox'")
        wire.run(f"{_ECHO}\ndata = np.ones({SIZES[-1] << 20} // 8)")
        wire.send_shell("comm_open", {"comm_id": "echo-1", "target_name": "echo", "data": {}})
        session.model.will_reply(say("Hello."))
        wire.run("%%vibe\nhello")
        session.model.wait_for_request()
        idle = [_click(wire) for _ in range(CLICKS)]
        code = f"import time\nuntil = time.monotonic() + {COMPUTES}\nwhile time.monotonic() < until: data.mean()"
        session.model.will_reply(call("run_code", code=code), say("Done."))
        began, request = time.monotonic(), wire.send("%%vibe\nlook")
        session.model.wait_for_request()
        busy: list[float] = []
        while not wire.is_idle(request) and time.monotonic() - began < COMPUTES:
            busy.append(_click(wire))
        wire.cell(request)
        assert "in a copy of the kernel" in session.model.requests[-1].tool_results[0]
        return idle, busy


def _click(wire: Wire) -> float:
    began = time.monotonic()
    sent = {"clicked": began}
    wire.comm("echo-1", sent)
    wire.until(lambda: any(one["content"].get("data") == sent for one in wire.seen[-CLICKS:]), "an answer")
    waited = 1e3 * (time.monotonic() - began)
    time.sleep(COMPUTES / CLICKS / 2)
    return waited


def main() -> int:
    print(f"{'data':>8}  {'code':14}{'plain':>8}{'copy':>8}{'kernel':>8}   ms of CPU, best of {ROUNDS}")
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder, running_kernel(INSTALLED, Path(folder)) as wire:
        wire.run("from tests.sandbox.escape_world import *")
        for megabytes in SIZES:
            wire.run(f"data = np.ones({megabytes << 20} // 8)")
            for code in CODE:
                plain, copy, kernel = measure(wire, code)
                worst = max(worst, copy + kernel - plain)
                print(f"{megabytes:>5} MB  {code:14}{plain:8.1f}{copy:8.1f}{kernel:8.1f}")
            cpu, wall, cpu_with, wall_with = json.loads(wire.run(_WITH_FILES.format(rounds=ROUNDS)).text)
            print(f"          1 + 1 in a trial run: {cpu:.1f} ms of CPU, {wall:.1f} in all; ", end="")
            print(f"with files of its own: {cpu_with:.1f} and {wall_with:.1f}")
    idle, busy = measure_latency()
    for when, clicks in (("nothing runs", idle), ("a copy computes", busy)):
        median, late = statistics.median(clicks), statistics.quantiles(clicks, n=20)[-1]
        print(f"a click while {when}: {median:.1f} ms, {late:.1f} of 1 in 20, {max(clicks):.1f} of {len(clicks)}")
    return report(
        [
            Row("a run in a copy, more than in the kernel, the worst", worst, AIM, "ms of CPU"),
            Row("the slowest click while a copy computes, more than at rest", max(busy) - max(idle), LATENCY_AIM, "ms"),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
