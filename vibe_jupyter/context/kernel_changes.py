"""What changed in the kernel since the last answer, and the report of the last error for `%vibe fix`.

Bounded, and the same text for the same state: it goes into the newest user message and is never rewritten, so that
the conversation stays append-only.
"""

import linecache
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from traceback import walk_tb
from types import FrameType
from typing import Any, Final, cast

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.files.truncation import cut_line, head_and_tail, section
from vibe_jupyter.kernel.capture import exception_message
from vibe_jupyter.variables.describe import summary_line, value_fingerprint

CONTEXT_LIMIT = 3_000
"""Characters of the whole section."""
CONTEXT_VARIABLES = 30
"""Variables named in one section."""

REPORT_LIMIT: Final = 3_000
"""Characters of the report."""
_AROUND: Final = 3
"""Lines shown before and after the one that failed."""
_FRAMES: Final = 8
"""Frames of the user's code shown with their lines; the last ones."""
_VARIABLES: Final = 12
"""Variables of one frame described."""
_NAME: Final = re.compile(r"[^\W\d]\w*")
_NONE: Final = "There is no error to fix: nothing has failed in this kernel yet."

CodeName = Callable[[str], "tuple[str, str] | None"]
"""What IPython calls a piece of code by its file name, such as ``Cell In[5]``; None for a file."""


class KernelChanges:
    """Compares the namespace with what it was when the last run ended. Main thread only."""

    def __init__(self, namespace: Callable[[], Mapping[str, object]]) -> None:
        self._namespace = namespace
        self._known: dict[str, object] = {}

    def changes(self) -> str:
        """The section for the next prompt; empty when nothing changed."""
        now = {name: value_fingerprint(value) for name, value in self._namespace().items()}
        changed = [name for name, mark in now.items() if name not in self._known or self._known[name] != mark]
        gone = [name for name in self._known if name not in now]
        self._known = now
        if not changed and not gone:
            return ""
        values = self._namespace()
        lines = [summary_line(name, values[name]) for name in changed[:CONTEXT_VARIABLES]]
        if len(changed) > CONTEXT_VARIABLES:
            lines.append(f"… and {len(changed) - CONTEXT_VARIABLES} more; list_variables lists them all")
        if gone:
            lines.append("no longer defined: " + ", ".join(gone[:CONTEXT_VARIABLES]))
        body = head_and_tail("\n".join(lines), CONTEXT_LIMIT)
        return section("notebook", f"Variables new or changed since the last prompt:\n{body}")

    def remember(self) -> None:
        """Take the present namespace as known, since the model saw what its own calls did."""
        self._known = {name: value_fingerprint(value) for name, value in self._namespace().items()}


def fix_prompt(shell: object, words: str) -> str:
    """A prompt that asks to fix the last error.

    Raises:
        NotebookError: there was none.
    """
    error = cast("BaseException | None", getattr(sys, "last_value", None))
    if error is None:
        raise NotebookError(_NONE)
    name_of = cast(CodeName, cast(Any, shell).compile.format_code_name)
    report = head_and_tail("\n".join(_report_lines(error, name_of)), REPORT_LIMIT)
    prompt = words or "Find out why this failed, fix it in its cell, and run that cell."
    return f"{prompt}\n\n{section('error', report)}"


def _report_lines(error: BaseException, name_of: CodeName) -> Iterator[str]:
    yield f"{type(error).__name__}: {exception_message(error)}"
    frames = list(walk_tb(error.__traceback__))
    own = [place for place, (frame, _) in enumerate(frames) if name_of(frame.f_code.co_filename)]
    shown = own[-_FRAMES:]
    for place, (frame, line) in enumerate(frames):
        if place in shown:
            yield from _own_frame(frame, line, name_of)
        elif place > (own[-1] if own else -1):
            yield f"  then {frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"


def _own_frame(frame: FrameType, line: int, name_of: CodeName) -> Iterator[str]:
    file = frame.f_code.co_filename
    kind, name = name_of(file) or ("File", file)
    function = "" if frame.f_code.co_name == "<module>" else f" in {frame.f_code.co_name}"
    yield f"{kind} {name}{function}, line {line}:"
    failed = linecache.getline(file, line)
    for number in range(max(1, line - _AROUND), line + _AROUND + 1):
        text = linecache.getline(file, number).rstrip("\n")
        if text:
            yield cut_line(f"{'->' if number == line else '  '} {number} {text}", 300)
    yield from _involved_variables(failed, frame.f_locals)


def _involved_variables(failed: str, values: Mapping[str, object]) -> Iterator[str]:
    names = [name for name in dict.fromkeys(_NAME.findall(failed)) if name in values]
    for name in names[:_VARIABLES]:
        yield f"   {summary_line(name, values[name])}"
