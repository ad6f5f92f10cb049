"""What code would change, as copies of the kernel show it before the user is asked: said on the card, and no promise.

It runs in two copies, one after the other. Where they differ, as they do when something is drawn at random, nothing is
said; and of code that tried what a copy may not do only that, since it may have gone another way for it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from vibe_jupyter.kernel.execution import CodeRunner
from vibe_jupyter.notebook.tools.exploration import CodeExploration, CodeRun, CopiedRun
from vibe_jupyter.tools.contract import ToolContext

SECONDS: Final = 3.0
"""In which both copies must have ended: the card waits for them."""
_SHOWN: Final = 6
"""Variables that are named."""
_TRIED: Final = 3
"""Attempts in vain that are named."""

_MODULE: Final = "module "
"""What the line of an imported module begins with: it changes nothing."""

LookAtCode = Callable[[str], Mapping[str, object]]
"""Gives, for code, how the variables it may touch look now. Main thread."""
LineOfVariable = Callable[[str], str]
"""Kind and extent of the variable of that name, in one line; empty where there is none. Main thread."""


class CodeForesight:
    """One for a kernel. On the engine's loop."""

    def __init__(self, exploration: CodeExploration, looks: LookAtCode, line: LineOfVariable) -> None:
        self._exploration = exploration
        self._looks = looks
        self._line = line

    async def words(self, code: str, context: ToolContext) -> str:
        """What it would change, in a line; empty where that cannot be told in time."""
        until = time.monotonic() + SECONDS
        first = await self._trial(code, until, context)
        if first is None or first.attempts:
            return _tried_words(first.attempts) if first is not None else ""
        second = await self._trial(code, until, context)
        if second is None or first.effects != second.effects:
            return ""
        return _effect_words(first.effects)

    async def _trial(self, code: str, until: float, context: ToolContext) -> CopiedRun | None:
        """None where it did not come to an end of its own in time."""
        seconds = until - time.monotonic()
        if seconds <= 0:
            return None
        ran = await self._exploration.trial(code, seconds, context, lambda runner: self._execute(code, seconds, runner))
        return ran if ran is not None and ran.result.status in ("ok", "error") else None

    def _execute(self, code: str, seconds: float, runner: CodeRunner) -> CodeRun:
        """In a copy, on its main thread."""
        before = self._looks(code)
        lines = {name: self._line(name) for name in before if name in code}
        result = runner.run(code, keep=True, timeout=seconds, on_output=lambda _: None)
        after = self._looks(code)
        in_place = [name for name in before if name in after and before[name] != after[name]]
        created = {name: self._line(name) for name in result.names_created}
        effects = [f"{name}: new, {line}" for name, line in created.items() if not line.startswith(_MODULE)]
        for name in dict.fromkeys([*result.names_changed, *in_place]):
            now = self._line(name)
            if not now:
                effects.append(f"{name}: removed")
            elif lines.get(name, now) != now:
                effects.append(f"{name}: {lines[name]} → {now}")
            else:
                effects.append(f"{name}: changed, {now}")
        if result.error is not None:
            effects.append(f"raises {result.error.name}")
        return CodeRun(result, tuple(in_place), "", tuple(effects))


def _effect_words(effects: Sequence[str]) -> str:
    if not effects:
        return ""
    more = f"; and {len(effects) - _SHOWN} more" if len(effects) > _SHOWN else ""
    return f"in a trial run: {'; '.join(effects[:_SHOWN])}{more}"


def _tried_words(attempts: Sequence[str]) -> str:
    more = f" and {len(attempts) - _TRIED} more" if len(attempts) > _TRIED else ""
    return f"in a trial run it wanted to {', '.join(attempts[:_TRIED])}{more}" if attempts else ""
