"""Results for the model, and events for the journal, if no values of the user's data may be sent.

A tool is trusted only if it declares that its results contain no values (`Tool.without_values`). For any other tool,
including those of MCP servers and the user's own, the model only learns the size of the result.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from vibe_jupyter.files.code_files import WITHHELD, is_code_file
from vibe_jupyter.protocol import ApprovalRequested, Event, Preview, TextPart, ToolFinished, ToolResult, ToolStarted
from vibe_jupyter.tools.contract import Tool

E = TypeVar("E", bound=Event)


def told_result(tool: Tool[Any], paths: Iterable[Path], result: ToolResult) -> ToolResult:
    """Return the result as the model may see it.

    Args:
        tool: the tool that was called.
        paths: files that it accessed, with all links followed.
        result: result of the tool.
    """
    when, touched = tool.without_values, list(paths)
    if when == "always" or (when == "of code files" and touched and all(map(is_code_file, touched))):
        return result
    return withheld_result(result)


def withheld_result(result: ToolResult) -> ToolResult:
    """Replace the model's part of a result with its size. The user's part is unchanged."""
    texts = [part.text for part in result.parts if isinstance(part, TextPart)]
    images = len(result.parts) - len(texts)
    lines, characters = sum(len(text.splitlines()) for text in texts), sum(map(len, texts))
    counts = f"{lines:,} lines, {characters:,} characters{f', {images} images' if images else ''}"
    words = f"{'failed' if result.is_error else 'ok'}; {counts}, {WITHHELD}"
    return result.model_copy(update={"parts": (TextPart(text=words),)})


def recorded(event: E) -> E:
    """Return the event to record if no values may be sent: without content that only the user was shown."""
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
    """Remove the text of a diff, which contains lines of the existing file."""
    return preview.model_copy(update={"text": ""}) if preview.kind == "diff" else preview
