"""Snippets of code, tried before the user is asked: what the card says of each is what it then does, or nothing.

They are those of `tests/sandbox/snippets.toml`. What each really does is found in another way, by running it.
"""

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import running_kernel
from tests.sandbox.snippet_trials import MAY_DIFFER, PLAIN
from vibe_jupyter.notebook.tools.foresight import SECONDS
from vibe_jupyter.sandbox.availability import machine_refusal

COUNT = len(PLAIN) + len(MAY_DIFFER)
MOST_SILENT = 0.1
"""Of the plain snippets, the share of which nothing may be said in time."""
_REPORT = "__import__('tests.sandbox.snippet_trials', fromlist=['report']).report({code!r})"
"""Binds no name of the user's."""


def sweep(count: int, seed: int) -> Iterator[str]:
    if machine_refusal():
        return
    snippets = [*PLAIN, *MAY_DIFFER]
    chosen = snippets if count >= len(snippets) else random.Random(seed).sample(snippets, count)
    silent: list[str] = []
    told_of_others = 0
    with tempfile.TemporaryDirectory() as folder, running_kernel(INSTALLED, Path(folder)) as wire:
        for code in chosen:
            told = json.loads(wire.run(_REPORT.format(code=code)).text)
            if told["wrong"]:
                yield f"{code!r}: {told['said']}: {'; '.join(told['wrong'])}"
            if code in PLAIN and not (told["said"] and told["seconds"] <= SECONDS):
                silent.append(code)
            told_of_others += bool(code not in PLAIN and told["said"])
    plain = [code for code in chosen if code in PLAIN]
    others = len(chosen) - len(plain)
    in_time = f"{len(plain) - len(silent)} of {len(plain)}"
    print(f"something was said in time of {in_time}, and of {told_of_others} of {others} that may differ")
    if chosen is snippets and len(silent) > MOST_SILENT * len(PLAIN):
        yield f"nothing was said in time of {len(silent)} of {len(PLAIN)}, such as {silent[0]!r}"
