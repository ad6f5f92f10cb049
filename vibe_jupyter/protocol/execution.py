"""How a piece of code ended in the kernel."""

from typing import Literal

from pydantic import JsonValue

from vibe_jupyter.protocol.value import Value


class RaisedError(Value):
    """The exception a piece of code ended with."""

    name: str
    """Class name, such as ``KeyError``."""
    message: str
    traceback: str
    """Plain text, terminal colours removed."""


class ExecutionResult(Value):
    """A final result: never ``maybe``."""

    status: Literal["ok", "error", "interrupted", "timeout"]
    outputs: tuple[dict[str, JsonValue], ...]
    """nbformat 4 outputs, adjacent streams merged, display updates applied."""
    execution_count: int | None = None
    """None for code that is no cell and enters no history."""
    error: RaisedError | None = None
    """None unless status is error."""
    seconds: float
    names_created: tuple[str, ...] = ()
    names_changed: tuple[str, ...] = ()
    """Names now bound to another object; an object changed in place is not noticed."""
