"""What code would change, as copies of the kernel show it before the user is asked: said on the card, and no promise.

It runs in two copies, one after the other. Where they differ nothing is said, nor of code that may go another way in
the kernel, since it asks for the time, for chance or for the process it runs in (`sandbox/signs.py`). Of code that
tried what a copy may not do only that is said, since it may have gone another way for it. Which variables that the code
may change cannot be undone is said of all code.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from IPython.core.inputtransformer2 import TransformerManager

from vibe_jupyter.kernel.execution import CodeRunner
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.notebook.tools.exploration import CodeExploration, CodeRun, CopiedRun
from vibe_jupyter.sandbox.signs import Signs
from vibe_jupyter.tools.contract import ToolContext, lost_words

SECONDS: Final = 3.0
"""In which both copies must have ended: the card waits for them."""
_SHOWN: Final = 6
"""Variables that are named."""
_TRIED: Final = 3
"""Attempts in vain that are named."""


class EffectsOfCode(Protocol):
    """Of one piece of code on the variables. Main thread."""

    def before_code(self, code: str) -> None:
        """Keep how they are."""
        ...

    def after_code(self, code: str) -> Sequence[str]:
        """What is different now, a line for each variable."""
        ...


class CodeForesight:
    """One for a kernel. On the engine's loop."""

    def __init__(
        self,
        exploration: CodeExploration,
        effects: Callable[[], EffectsOfCode],
        namespace: Callable[[], Mapping[str, object]],
    ) -> None:
        self._exploration = exploration
        self._effects = effects
        self._namespace = namespace

    async def words(self, code: str, context: ToolContext) -> str:
        """What it would change, in a line; empty where that cannot be told in time."""
        until = time.monotonic() + SECONDS
        first = await self._trial(code, until, context)
        if first is None or first.may_differ:
            return ""
        if first.attempts or first.refused:
            return _tried_words(first.attempts)
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
        signs, effects = Signs(), self._effects()
        signs.look_for_names(TransformerManager().transform_cell(code), self._namespace())
        effects.before_code(code)
        with signs.watching():
            result = runner.run(code, keep=True, timeout=seconds, on_output=lambda _: None)
        lines = list(effects.after_code(code))
        if result.error is not None:
            lines.append(f"raises {result.error.name}")
        return CodeRun(result, (), "", tuple(lines), may_differ=signs.seen)


class CodeOutlook:
    """All that a card says of code in advance. On the engine's loop."""

    def __init__(
        self,
        main_thread: MainThread,
        foresight: CodeForesight | None,
        not_undone: Callable[[str], Mapping[str, str]],
    ) -> None:
        """
        Args:
            main_thread: reads variables.
            foresight: tries code; None where no copies can be made.
            not_undone: gives, for code, the variables it may reach that undo would not restore, each with the reason.
        """
        self._main_thread = main_thread
        self._foresight = foresight
        self._not_undone = not_undone

    async def words(self, code: str, context: ToolContext, *, tries: bool) -> str:
        """What it would change, where it may be tried, and what of it cannot be undone; empty for neither."""
        changes = await self._foresight.words(code, context) if tries and self._foresight is not None else ""
        lost = await self._main_thread.call(lambda: self._not_undone(code), raises=False)
        return " · ".join(filter(None, (lost_words(list(lost)), changes)))


def _effect_words(effects: Sequence[str]) -> str:
    if not effects:
        return ""
    more = f"; and {len(effects) - _SHOWN} more" if len(effects) > _SHOWN else ""
    return f"in a trial run: {'; '.join(effects[:_SHOWN])}{more}"


def _tried_words(attempts: Sequence[str]) -> str:
    more = f" and {len(attempts) - _TRIED} more" if len(attempts) > _TRIED else ""
    return f"in a trial run it wanted to {', '.join(attempts[:_TRIED])}{more}" if attempts else ""
