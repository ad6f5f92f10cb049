"""The tool that runs code in the person's kernel without adding a cell."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from pydantic import BaseModel, Field, JsonValue

from vibe_jupyter.errors import NotebookError, ToolError
from vibe_jupyter.notebook.capture import plain_text
from vibe_jupyter.notebook.execution import CodeRunner
from vibe_jupyter.notebook.foreground import Foreground
from vibe_jupyter.protocol import (
    ExecutionResult,
    Headline,
    ImagePart,
    Level,
    Preview,
    Resource,
    TextPart,
    ToolResult,
)
from vibe_jupyter.tools.base import ToolContext
from vibe_jupyter.tools.truncate import head_and_tail

MAX_IMAGES: Final = 4
"""Images of one result that a model with eyes gets."""
MAX_IMAGE: Final = 1024 * 1024
"""Characters of base64 of one image; larger ones are only named."""
_SHOWN_TEXT: Final = 100_000
"""Characters of output kept for the person in the step."""
_OBJECT_REPR: Final = "<IPython.core.display."


class RunCodeArguments(BaseModel):
    """What the model says to run."""

    code: str = Field(min_length=1, description="Python as in a cell: magics, !commands and top-level await work.")
    keep: bool = Field(default=False, description="Keep the names bound at the top level for later.")
    timeout: float = Field(default=30, gt=0, le=3600, description="Seconds after which it is interrupted.")
    reason: str = Field(default="", description="Why, in a few words; the person reads them before allowing.")


class RunCode:
    """Runs code on the main thread, in the person's namespace."""

    name = "run_code"
    description = (
        "Run Python in the person's notebook kernel, with their variables, and get what it prints, its last value and "
        "its error. No cell is added. Names bound at the top level are taken back afterwards unless keep is true; "
        "objects changed in place stay changed. Figures are shown to the person."
    )
    level: Level = "ask"
    arguments = RunCodeArguments

    def __init__(self, foreground: Foreground, runner: CodeRunner, *, sees_images: bool = False) -> None:
        self._foreground = foreground
        self._runner = runner
        self._sees_images = sees_images

    def headline(self, args: RunCodeArguments) -> Headline:
        return Headline(verb="Ran", doing="Running", asking="Run", target="code", note=args.reason)

    def preview(self, args: RunCodeArguments) -> Preview:
        return Preview(kind="code", text=args.code, language="python", edits="code")

    def touches(self, args: RunCodeArguments) -> Sequence[Resource]:
        return (Resource(kind="code", value=args.code, access="execute"),)

    async def run(self, args: RunCodeArguments, context: ToolContext) -> ToolResult:
        def execute() -> ExecutionResult:
            if context.cancelled() or self._foreground.interrupted:
                raise ToolError("interrupted before it ran")
            return self._runner.run(args.code, keep=args.keep, timeout=args.timeout, on_output=context.progress)

        try:
            result = await self._foreground.call(execute)
        except NotebookError as error:
            raise ToolError(f"Not run to its end: {error}") from error
        return self._result(args, result)

    def _result(self, args: RunCodeArguments, result: ExecutionResult) -> ToolResult:
        output = _text(result)
        report = "\n".join(filter(None, (_status(args, result), output, _names(args, result))))
        images = _images(result) if self._sees_images else ()
        display: dict[str, JsonValue] = {"text/x-python": args.code}
        if output:
            display["text/plain"] = head_and_tail(output, _SHOWN_TEXT)
        return ToolResult(
            parts=(TextPart(text=head_and_tail(report)), *images),
            summary=_summary(args, result, output),
            display=display,
            details={
                "status": result.status,
                "seconds": round(result.seconds, 3),
                "names_created": list(result.names_created),
                "names_changed": list(result.names_changed),
            },
            is_error=result.status != "ok",
        )


def _status(args: RunCodeArguments, result: ExecutionResult) -> str:
    match result.status:
        case "ok":
            return f"ok in {result.seconds:.1f} s"
        case "error":
            error = result.error
            return f"error: {error.name}: {_first_line(error.message)}" if error is not None else "error"
        case "timeout":
            return f"timeout after {args.timeout:g} s"
        case "interrupted":
            return "interrupted by the person"


def _summary(args: RunCodeArguments, result: ExecutionResult, output: str) -> str:
    if result.status == "error" and result.error is not None:
        return f"{result.error.name}: {_first_line(result.error.message)}".removesuffix(": ")
    if result.status != "ok":
        return _status(args, result)
    figures = sum(1 for output in result.outputs if _image_type(_data(output)))
    lines = len([line for line in output.splitlines() if line and not line.startswith("[image/")])
    counts = [f"{n} {word}{'s' if n != 1 else ''}" for n, word in ((figures, "figure"), (lines, "line")) if n]
    return ", ".join(counts) or "no output"


def _names(args: RunCodeArguments, result: ExecutionResult) -> str:
    kept = "" if args.keep else " (taken back; keep=true keeps them)"
    lines = [
        f"names {what}: {', '.join(names)}{kept}"
        for what, names in (("created", result.names_created), ("changed", result.names_changed))
        if names
    ]
    return "\n".join(lines)


def _text(result: ExecutionResult) -> str:
    return "\n".join(filter(None, (_output_text(output).strip("\n") for output in result.outputs)))


def _output_text(output: dict[str, JsonValue]) -> str:
    match output["output_type"]:
        case "stream":
            return _as_shown(str(output["text"]))
        case "error":
            return plain_text("\n".join(cast(list[str], output["traceback"])))
        case _:
            return _data_text(_data(output))


def _data_text(data: dict[str, Any]) -> str:
    image = _image_type(data)
    if image:
        return f"[{image} shown to the person]"
    plain = str(data.get("text/plain", ""))
    if not plain or plain.startswith(_OBJECT_REPR):
        plain = str(next((data[mime] for mime in ("text/markdown", "text/latex", "text/html") if mime in data), plain))
    return plain_text(plain) or f"[{', '.join(sorted(data))} shown to the person]"


def _as_shown(text: str) -> str:
    """A progress bar writes its line again and again: as a terminal, show the last state."""
    lines = plain_text(text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def _images(result: ExecutionResult) -> tuple[ImagePart, ...]:
    return tuple(_raster_images(_data(output) for output in result.outputs))[:MAX_IMAGES]


def _raster_images(bundles: Iterable[dict[str, Any]]) -> Iterable[ImagePart]:
    for data in bundles:
        media_type = _image_type(data)
        encoded = "".join(str(data.get(media_type, "")).split())
        if media_type in ("image/png", "image/jpeg", "image/gif", "image/webp") and len(encoded) <= MAX_IMAGE:
            yield ImagePart(media_type=media_type, data=encoded)


def _image_type(data: dict[str, Any]) -> str:
    return next((mime for mime in data if mime.startswith("image/")), "")


def _data(output: dict[str, JsonValue]) -> dict[str, Any]:
    return cast(dict[str, Any], output.get("data") or {})


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:200]
