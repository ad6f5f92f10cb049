"""What the model hears of a call, and what is recorded of it, where no value of the user's data may be sent.

A tool is believed only if it says itself that its results hold none (`ToldWithoutValues`). Of every other one, an MCP
server's or the user's own too, the model hears how much there was.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from vibe_jupyter.files.code_files import WITHHELD, is_code_file
from vibe_jupyter.protocol import ApprovalRequested, Event, Preview, TextPart, ToolFinished, ToolResult, ToolStarted
from vibe_jupyter.tools.contract import Tool, told_without_values

E = TypeVar("E", bound=Event)


def told_result(tool: Tool[Any], paths: Iterable[Path], result: ToolResult) -> ToolResult:
    """The result as the model may have it.

    Args:
        tool: which one.
        paths: of the files it touched, every link followed.
        result: what it gave.
    """
    when, touched = told_without_values(tool), list(paths)
    if when == "always" or (when == "of code files" and touched and all(map(is_code_file, touched))):
        return result
    return withheld_result(result)


def withheld_result(result: ToolResult) -> ToolResult:
    """The same for the user; of what the model gets, the size alone."""
    texts = [part.text for part in result.parts if isinstance(part, TextPart)]
    images = len(result.parts) - len(texts)
    lines, characters = sum(len(text.splitlines()) for text in texts), sum(map(len, texts))
    counts = f"{lines:,} lines, {characters:,} characters{f', {images} images' if images else ''}"
    words = f"{'failed' if result.is_error else 'ok'}; {counts}, {WITHHELD}"
    return result.model_copy(update={"parts": (TextPart(text=words),)})


def recorded(event: E) -> E:
    """The event as it is kept where no value may be sent: without what only the user was shown."""
    match event:
        case ToolFinished():
            return event.model_copy(update={"summary": "", "display": {}, "details": {}})
        case ApprovalRequested():
            return event.model_copy(update={"reason": "", "preview": _without_diff(event.preview)})
        case ToolStarted(preview=Preview() as preview):
            return event.model_copy(update={"preview": _without_diff(preview)})
        case _:
            return event


def _without_diff(preview: Preview) -> Preview:
    """A diff shows lines of the file that was there."""
    return preview.model_copy(update={"text": ""}) if preview.kind == "diff" else preview
