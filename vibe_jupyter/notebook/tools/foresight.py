"""What code would change, as copies of the kernel show it before the user is asked: said on the card, and no promise.

It runs in two copies, one after the other. Where they differ nothing is said, nor of code that may go another way in
the kernel, since it asks for the time, for chance or for the process it runs in (`sandbox/signs.py`). Code that tried
what a copy may not do runs in two others, which write to files of their own (`sandbox/overlay.py`). Where that does not
tell, only what it tried first is said, since it may have gone another way for it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from IPython.core.inputtransformer2 import TransformerManager

from vibe_jupyter.files.sizes import bytes_text
from vibe_jupyter.kernel.execution import CodeRunner
from vibe_jupyter.notebook.tools.exploration import CodeExploration, CodeRun, CopiedRun
from vibe_jupyter.sandbox.file_changes import FileChange
from vibe_jupyter.sandbox.signs import Signs
from vibe_jupyter.tools.contract import ToolContext

SECONDS: Final = 3.0
"""In which both copies must have ended: the card waits for them."""
_SHOWN: Final = 6
"""Variables that are named."""


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
            return await self._words_of_writing(code, until, context) or _tried_words(first.attempts)
        second = await self._trial(code, until, context)
        return _effect_words(_common_effects(first, second))

    async def _words_of_writing(self, code: str, until: float, context: ToolContext) -> str:
        """The same where it may write, or what it wants more than that; empty where that cannot be told."""
        first = await self._trial(code, until, context, writes=True)
        if first is None or first.may_differ:
            return ""
        if first.attempts or first.refused:
            return _tried_words(first.attempts)
        return _effect_words(_common_effects(first, await self._trial(code, until, context, writes=True)))

    async def _trial(self, code: str, until: float, context: ToolContext, *, writes: bool = False) -> CopiedRun | None:
        """None where it did not come to an end of its own in time."""
        seconds = until - time.monotonic()
        if seconds <= 0:
            return None

        def execute(runner: CodeRunner) -> CodeRun:
            return self._execute(code, seconds, runner, writes=writes)

        ran = await self._exploration.trial(code, seconds, context, execute, writes=writes)
        return ran if ran is not None and ran.result.status in ("ok", "error") else None

    def _execute(self, code: str, seconds: float, runner: CodeRunner, *, writes: bool) -> CodeRun:
        """In a copy, on its main thread."""
        signs, effects = Signs(has_files=writes), self._effects()
        signs.look_for_names(TransformerManager().transform_cell(code), self._namespace())
        effects.before_code(code)
        with signs.watching():
            result = runner.run(code, keep=True, timeout=seconds, on_output=lambda _: None)
        lines = list(effects.after_code(code))
        if result.error is not None:
            lines.append(f"raises {result.error.name}")
        return CodeRun(result, (), "", tuple(lines), may_differ=signs.seen)


def _common_effects(first: CopiedRun, second: CopiedRun | None) -> Sequence[str]:
    """Of both runs; empty where they differ, or where it cannot be told."""
    if second is None or first.effects != second.effects or first.files != second.files or first.files is None:
        return ()
    deeds = list(map(_deed_words, first.files))
    more = f" and {len(deeds) - _SHOWN} more" if len(deeds) > _SHOWN else ""
    return (*([f"would {', '.join(deeds[:_SHOWN])}{more}"] if deeds else []), *first.effects)


def _deed_words(change: FileChange) -> str:
    """Such as ``write out.csv (1.2 kB, 20 lines)``."""
    if change.deed not in ("write", "change"):
        return f"{change.deed} {change.path}"
    if change.added or change.removed:
        parts = (f"+{change.added}" if change.added else "", f"−{change.removed}" if change.removed else "")
        noun = "line" if change.added + change.removed == 1 else "lines"
        return f"{change.deed} {change.path} ({' '.join(filter(None, parts))} {noun})"
    if change.size == 0:
        return f"{change.deed} {change.path} (empty)"
    lines = "" if change.lines is None else f", {_counted(change.lines, 'line')}"
    return f"{change.deed} {change.path} ({bytes_text(change.size)}{lines})"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _effect_words(effects: Sequence[str]) -> str:
    if not effects:
        return ""
    more = f"; and {len(effects) - _SHOWN} more" if len(effects) > _SHOWN else ""
    return f"in a trial run: {'; '.join(effects[:_SHOWN])}{more}"


def _tried_words(attempts: Sequence[str]) -> str:
    """The first alone: code that goes on without what it was refused may try what it would not in the kernel."""
    return f"in a trial run it wanted to {attempts[0]}" if attempts else ""
