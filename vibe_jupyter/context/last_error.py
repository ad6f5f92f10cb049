"""The user's last error with source lines and variables, for prompts that ask to fix it."""

import linecache
import re
from collections.abc import Callable, Iterator, Mapping
from traceback import walk_tb
from types import FrameType
from typing import Any, Final, cast

from vibe_jupyter.errors import NotebookError, error_of_user
from vibe_jupyter.files.truncation import cut_line, head_and_tail, section
from vibe_jupyter.kernel.outputs import exception_message
from vibe_jupyter.notebook.told_message import told_class, told_message
from vibe_jupyter.variables.describe import value_line
from vibe_jupyter.variables.schema_text import schema_line

REPORT_LIMIT: Final = 3_000  # characters of the report
_AROUND: Final = 3  # lines shown before and after the failing one
_FRAMES: Final = 8  # innermost frames of the user's code shown with source
_VARIABLES: Final = 12  # variables described per frame
_NAME: Final = re.compile(r"[^\W\d]\w*")
_NONE: Final = "There is no error to fix: nothing has failed in this kernel yet."

# Returns IPython's name for code by its file name, such as ``Cell In[5]``, or None for real files.
CodeName = Callable[[str], "tuple[str, str] | None"]


def fix_prompt(shell: object, words: str, *, schema_only: bool) -> str:
    """Return a prompt that asks to fix the last error.

    Args:
        shell: IPython's shell.
        words: The user's text, or "".
        schema_only: Whether values of the user's data must not be sent.

    Raises:
        NotebookError: There was no error.
    """
    error = error_of_user()
    if error is None:
        raise NotebookError(_NONE)
    name_of = cast(CodeName, cast(Any, shell).compile.format_code_name)
    report = head_and_tail("\n".join(_report_lines(error, name_of, schema_only=schema_only)), REPORT_LIMIT)
    prompt = words or "Find out why this failed, fix it in its cell, and run that cell."
    return f"{prompt}\n\n{section('error', report)}"


def _report_lines(error: BaseException, name_of: CodeName, *, schema_only: bool) -> Iterator[str]:
    frames = list(walk_tb(error.__traceback__))
    name, message = type(error).__name__, exception_message(error)
    if schema_only:
        code = [linecache.getline(frame.f_code.co_filename, line) for frame, line in frames]
        words = set(_NAME.findall("\n".join(code)))
        name, message = told_class(name, words), told_message(message, words)
    yield f"{name}: {message}"
    line_of = schema_line if schema_only else value_line
    own = [place for place, (frame, _) in enumerate(frames) if name_of(frame.f_code.co_filename)]
    shown = own[-_FRAMES:]
    for place, (frame, line) in enumerate(frames):
        if place in shown:
            yield from _own_frame(frame, line, name_of, line_of)
        elif place > (own[-1] if own else -1):
            yield f"  then {frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"


def _own_frame(frame: FrameType, line: int, name_of: CodeName, line_of: Callable[[object], str]) -> Iterator[str]:
    file = frame.f_code.co_filename
    kind, name = name_of(file) or ("File", file)
    function = "" if frame.f_code.co_name == "<module>" else f" in {frame.f_code.co_name}"
    yield f"{kind} {name}{function}, line {line}:"
    failed = linecache.getline(file, line)
    for number in range(max(1, line - _AROUND), line + _AROUND + 1):
        text = linecache.getline(file, number).rstrip("\n")
        if text:
            yield cut_line(f"{'->' if number == line else '  '} {number} {text}", 300)
    yield from _involved_variables(failed, frame.f_locals, line_of)


def _involved_variables(failed: str, values: Mapping[str, object], line_of: Callable[[object], str]) -> Iterator[str]:
    names = [name for name in dict.fromkeys(_NAME.findall(failed)) if name in values]
    for name in names[:_VARIABLES]:
        yield f"   {name}: {line_of(values[name])}"
