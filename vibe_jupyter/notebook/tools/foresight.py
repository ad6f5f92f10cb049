"""Effect preview: runs code in copies of the kernel to show on the approval card what it would change. No guarantee.

The code runs in two copies, one after the other. There is no preview if they differ, or if the code may behave
differently in the kernel because it uses time, randomness or its process (`sandbox/signs.py`). Code that tried
something a copy blocks runs in two more, which write to an overlay (`sandbox/overlay.py`). If that gives no result
either, only the first blocked operation is shown, since the code may have taken another path because of it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from IPython.core.inputtransformer2 import TransformerManager

from vibe_jupyter.kernel.execution import CodeRunner
from vibe_jupyter.notebook.tools.copy_report import CopiedRun
from vibe_jupyter.notebook.tools.effect_words import EffectWords
from vibe_jupyter.notebook.tools.exploration import CodeExploration, CodeRun
from vibe_jupyter.protocol.variable_effects import VariableEffect
from vibe_jupyter.sandbox.signs import Signs
from vibe_jupyter.tools.contract import ToolContext

SECONDS: Final = 3.0  # seconds for both copies together: the card waits for them
_SHOWN: Final = 6  # variables to name


class EffectsOfCode(Protocol):
    """Effects of one piece of code on the variables. Main thread."""

    def before_code(self, code: str) -> None:
        """Record the variables before the code runs."""
        ...

    def after_code(self, code: str) -> Sequence[VariableEffect]:
        """Return what has changed."""
        ...


class CodeForesight:
    """Effect preview of one kernel. On the engine's loop."""

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
        """Describe the effects of code in one line, or return "" if they can't be determined in time."""
        until = time.monotonic() + SECONDS
        first = await self._trial(code, until, context)
        if first is None or first.may_differ:
            return ""
        if first.attempts or first.refused:
            return await self._words_of_writing(code, until, context) or _tried_words(first.attempts)
        second = await self._trial(code, until, context)
        return _effect_words(first, second, schema_only=context.schema_only)

    async def _words_of_writing(self, code: str, until: float, context: ToolContext) -> str:
        """Preview in copies that may write, or name what else the code would need; "" if that can't be determined."""
        first = await self._trial(code, until, context, writes=True)
        if first is None or first.may_differ:
            return ""
        if first.attempts or first.refused:
            return _tried_words(first.attempts)
        second = await self._trial(code, until, context, writes=True)
        return _effect_words(first, second, schema_only=context.schema_only)

    async def _trial(self, code: str, until: float, context: ToolContext, *, writes: bool = False) -> CopiedRun | None:
        """Run the code in a copy. Returns None if it didn't finish in time."""
        seconds = until - time.monotonic()
        if seconds <= 0:
            return None

        def execute(runner: CodeRunner) -> CodeRun:
            return self._execute(code, seconds, runner, writes=writes)

        ran = await self._exploration.trial(code, seconds, context, execute, writes=writes)
        return ran if ran is not None and ran.result.status in ("ok", "error") else None

    def _execute(self, code: str, seconds: float, runner: CodeRunner, *, writes: bool) -> CodeRun:
        """Run the code. In a copy, on its main thread."""
        signs, effects = Signs(has_files=writes), self._effects()
        signs.look_for_names(TransformerManager().transform_cell(code), self._namespace())
        effects.before_code(code)
        runner.watching = signs.watching
        result = runner.run(code, keep=True, timeout=seconds, on_output=lambda _: None)
        changed = tuple(effects.after_code(code))
        return CodeRun(result.model_copy(update={"outputs": ()}), (), "", changed, may_differ=signs.seen)


def _effect_words(first: CopiedRun, second: CopiedRun | None, *, schema_only: bool) -> str:
    """Describe the effects in one line, or return "" if the two runs differ or can't be compared."""
    if second is None or first.files is None or _facts(first) != _facts(second):
        return ""
    words = EffectWords(first.names, schema_only)
    variables, others = words.variables(first.effects)
    error = first.result.error
    raises = [f"raises {error.name}"] if error is not None else []
    lines = [*words.files(first.files, _SHOWN), *variables, *raises]
    more = max(0, len(lines) - _SHOWN) + others + first.more_effects
    if not lines and not more:
        return ""
    parts = [*lines[:_SHOWN], *([f"and {more} more" if lines else f"{more} variables change"] if more else [])]
    return f"in a trial run: {'; '.join(parts)}"


def _facts(run: CopiedRun) -> object:
    """Return the facts that two runs of the same code should have in common."""
    error = run.result.error
    return run.effects, run.more_effects, run.files, error.name if error is not None else ""


def _tried_words(attempts: Sequence[str]) -> str:
    """Describe the first blocked operation only: after it, the code may try things that it wouldn't in the kernel."""
    return f"in a trial run it wanted to {attempts[0]}" if attempts else ""
