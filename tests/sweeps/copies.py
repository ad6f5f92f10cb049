"""Copies of a kernel, one after the other, that end in every way: no process, descriptor or memory is left behind."""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import running_kernel
from vibe_jupyter.sandbox.availability import machine_refusal

COUNT = 1_000
CODE = (
    *("1 + 1", "df.x.mean()", "df['y'] = 1", "1 / 0", "open('new.txt', 'w')", "import socket; socket.socket()"),
    *("import os; os._exit(3)", "import os; os.kill(os.getpid(), 9)", "print('x' * 1_000_000)"),
    "import threading; [threading.Thread(target=sum, args=(range(10),)).start() for _ in range(5)]",
)
TIMED_OUT = "while True: pass"
EVERY = 50
"""One copy in so many is one that takes too long."""
MOST_MORE = 8
"""Descriptors, or threads, more than at first: the engine's pool grows to its size, and IPython opens its history."""
MOST_GROWTH = 30 << 20
"""Bytes that the kernel's memory may grow by, of what allocators keep."""
_NOT_EXPLORED = ("NOT EXPLORED: a copy of the kernel", "NOT EXPLORED: it ended the copy of the kernel")
_SEEN = 200
"""Characters of a report that are looked at."""
_LOOK = """
import json, psutil
me = psutil.Process()
print(json.dumps([len(children()), me.num_fds(), me.num_threads(), me.memory_info().rss]))
"""


def sweep(count: int, seed: int) -> Iterator[str]:
    if machine_refusal():
        return
    chosen = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, running_kernel(INSTALLED, Path(folder)) as wire:
        wire.run(f"from tests.sandbox.escape_world import *\nfor one in {CODE!r}: print(explore(one))")
        before = eval(wire.run(_LOOK).text)
        for number in range(count):
            code = TIMED_OUT if number % EVERY == EVERY - 1 else chosen.choice(CODE)
            # IPython keeps what a cell prints: no more of it than is looked at.
            said = wire.run(f"print(explore({code!r}, 0.3 if {code == TIMED_OUT} else 20)[:{_SEEN}])").text
            if not said.startswith(("ok", "error", "timeout", *_NOT_EXPLORED)):
                yield f"try {number}: {code}: {said}"
        after = eval(wire.run(_LOOK).text)
        more = [now - then for now, then in zip(after, before, strict=True)]
        if more[0] or max(more[1:3]) > MOST_MORE or more[3] > MOST_GROWTH:
            yield f"children, descriptors, threads, memory: {before} before, {after} after"
