"""The gateway's own tools: shell and Python in a working folder, and delivery of files from there."""

import asyncio
import base64
import importlib
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from vibe_jupyter.config.settings import Settings
from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.images import MAX_SIDE, read_image
from vibe_jupyter.files.path_arguments import PathArguments
from vibe_jupyter.gateway.files import MADE_PREVIEW
from vibe_jupyter.gateway.run_files import MOST_OF_CALL, RunFiles
from vibe_jupyter.gateway.work_folders import WorkFolder
from vibe_jupyter.permissions.shell.git_environment import git_environment
from vibe_jupyter.permissions.shell.judge import search_guard
from vibe_jupyter.protocol import Headline, ImagePart, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.bash import (
    LONGEST_TIMEOUT,
    BashArgs,
    BashOptions,
    BashTool,
    ShellEnvironment,
    command_result,
)
from vibe_jupyter.tools.child_environment import child_environment
from vibe_jupyter.tools.contract import UNLISTED, StaticToolset, Tool, ToolContext
from vibe_jupyter.tools.process import ShellCommand, run_command
from vibe_jupyter.tools.read_file import ReadFileOptions, ReadFileTool

MOST_PICTURES: Final = 4  # images of one `run_code` call for the model
MOST_FRAMES: Final = 8  # frames of an animation for the client
CODE_SECONDS: Final = 300  # seconds; default timeout of `run_code`
CODE_OUTPUT: Final = 16_000  # bytes kept of each output stream: its head and tail
_FILE_WORDS: Final = 1_000  # characters of a file's description besides its preview
_FILES_ROOM: Final = MOST_OF_CALL * (MADE_PREVIEW + _FILE_WORDS)
_CODE_WORDS: Final = 2_000
_GIF: Final = "image/gif"


@dataclass(frozen=True)
class WorkTerms:
    """Inputs of the tools of one request."""

    folder: WorkFolder
    files: RunFiles
    environ: Mapping[str, str]
    settings: Settings
    sees_images: bool


def work_tools(terms: WorkTerms) -> StaticToolset:
    """Create the tools that the settings enable."""
    names = terms.settings.gateway.tools
    tools: list[Tool[Any]] = []
    if "bash" in names:
        tools.append(WorkShellTool(terms))
    if "run_code" in names:
        tools.append(WorkCodeTool(terms))
    if tools:
        tools.append(SurfaceFilesTool(terms))
    if "read_file" in names:
        options = terms.settings.tool_options("read_file", ReadFileOptions)
        tools.append(ReadFileTool(terms.folder.workspace, options=options, sees_images=lambda: terms.sees_images))
    return StaticToolset(tools)


class WorkShellArgs(BashArgs):
    """What to run."""

    background: bool = Field(default=False, json_schema_extra=UNLISTED)


class WorkShellTool(BashTool):
    """Shell tool that runs commands in the working folder and delivers the files they make."""

    description = (
        "Run one shell command in the working folder. It has no input. Files that it makes or changes go to the user."
    )
    arguments = WorkShellArgs

    def __init__(self, terms: WorkTerms) -> None:
        workspace = terms.folder.workspace

        def guard(command: str) -> Mapping[str, str]:
            return {**git_environment(), **search_guard(command, workspace)}

        around = ShellEnvironment(workspace, terms.environ, {}, guard)
        super().__init__(around, terms.settings.tool_options("bash", BashOptions))
        self._terms = terms
        self.result_limit += _FILES_ROOM

    async def run(self, args: BashArgs, context: ToolContext) -> ToolResult:
        if args.background:
            raise ToolError("No command goes on in the background here: run it to its end.")
        folder = self._terms.folder
        before = await asyncio.to_thread(folder.stamps)
        done = await super().run(args, context)
        status = done.details.get("returncode")
        told: dict[str, JsonValue] = {
            "commands": [args.command],
            "stdout": done.details.get("stdout"),
            "stderr": done.details.get("stderr"),
            "exit_code": status,
            "timed_out": status is None,
            "working_directory": str(folder.path),
        }
        result = done.model_copy(update={"details": told})
        return await self._terms.files.surface(folder, before, result, (context.call_id, self.name))


class WorkCodeArgs(BaseModel):
    """What to run."""

    model_config = ConfigDict(extra="forbid")

    code: str = Field(min_length=1)
    timeout: int | None = Field(default=None, ge=1, le=LONGEST_TIMEOUT)


class WorkCodeTool(Tool[WorkCodeArgs]):
    """Tool that runs Python code in a new process."""

    name = "run_code"
    description = (
        "Run Python in the working folder, in a new process each time: what is needed later is written to a file. What "
        "is printed comes back. Files that it makes or changes go to the user; save charts as PNG to see them."
    )
    arguments = WorkCodeArgs
    result_limit = 2 * CODE_OUTPUT + _CODE_WORDS + _FILES_ROOM

    def __init__(self, terms: WorkTerms) -> None:
        self._terms = terms

    def headline(self, args: WorkCodeArgs) -> Headline:
        return Headline(verb="Ran code", doing="Running code", asking="Run code", target="")

    def preview(self, args: WorkCodeArgs) -> Preview:
        return Preview(kind="code", text=args.code, language="python", edits="code")

    def touches(self, args: WorkCodeArgs) -> Sequence[Resource]:
        return (Resource(kind="code", value=args.code, access="execute"),)

    async def run(self, args: WorkCodeArgs, context: ToolContext) -> ToolResult:
        terms = self._terms
        seconds = args.timeout or CODE_SECONDS
        command = ShellCommand(
            argv=(sys.executable, "-c", args.code),
            folder=terms.folder.path,
            environment={**child_environment(terms.environ), "MPLBACKEND": "Agg"},
            timeout=seconds,
            output_limit=CODE_OUTPUT,
        )
        before = await asyncio.to_thread(terms.folder.stamps)
        done = await run_command(command, context.progress)
        result = command_result("", done, seconds)
        result = await terms.files.surface(terms.folder, before, result, (context.call_id, self.name))
        seen = await asyncio.to_thread(self._pictures, context.call_id)
        told: dict[str, JsonValue] = {
            "code": args.code,
            "stdout": done.stdout,
            "stderr": done.stderr,
            "exit_code": done.returncode,
            "timed_out": done.ended == "timeout",
            "images_base64": [one.data for one in seen.pictures],
            "video_frames_base64": list(seen.frames),
        }
        details = {name: value for name, value in told.items() if value != []}
        return result.model_copy(update={"parts": (*result.parts, *seen.pictures), "details": details})

    def _pictures(self, call_id: str) -> "_Seen":
        """Read the images among a call's files: still images for the model, frames of animations for the client."""
        pictures: list[ImagePart] = []
        frames: list[str] = []
        workspace = self._terms.folder.workspace
        for made in self._terms.files.made_by(call_id):
            if not made.mime_type.startswith("image/") or made.code is not None:
                continue
            try:
                with workspace.open_read(workspace.resolve(made.name)) as file:
                    moving = _frames(file.read()) if made.mime_type == _GIF else []
                    file.seek(0)
                    seen = None if moving else read_image(file, made.name)
            except ToolError:  # deleted meanwhile, or too large for the model
                continue
            frames += moving
            pictures += [] if seen is None else [seen.part]
        return _Seen(pictures[:MOST_PICTURES], frames[:MOST_FRAMES])


class _Seen(NamedTuple):
    pictures: Sequence[ImagePart]
    frames: Sequence[str]  # of animations, as PNG in base64


def _frames(raw: bytes) -> list[str]:
    """Return the frames of an animation. Empty for a still image, or without a Pillow that can read it."""
    try:
        pillow: Any = importlib.import_module("PIL.Image")
    except ImportError:
        return []
    frames: list[str] = []
    try:
        with pillow.open(io.BytesIO(raw)) as moving:
            count = getattr(moving, "n_frames", 1)
            for place in range(0, count if count > 1 else 0, -(-count // MOST_FRAMES)):
                moving.seek(place)
                frame, out = moving.convert("RGBA"), io.BytesIO()
                frame.thumbnail((MAX_SIDE, MAX_SIDE))
                frame.save(out, format="PNG")
                frames.append(base64.b64encode(out.getvalue()).decode("ascii"))
    except (OSError, ValueError, pillow.DecompressionBombError):
        return []
    return frames


class SurfaceFilesArgs(PathArguments):
    """Which files."""

    model_config = ConfigDict(extra="forbid")

    paths: list[str] = Field(min_length=1, max_length=MOST_OF_CALL)


class SurfaceFilesTool(Tool[SurfaceFilesArgs]):
    """Tool that delivers files made by earlier calls."""

    name = "surface_files"
    description = "Give files from the working folder to the user that were made in earlier calls."
    level = "always"
    arguments = SurfaceFilesArgs
    result_limit = _FILES_ROOM

    def __init__(self, terms: WorkTerms) -> None:
        self._terms = terms

    def headline(self, args: SurfaceFilesArgs) -> Headline:
        return Headline(verb="Gave", doing="Giving", asking="Give", target=", ".join(args.paths))

    def preview(self, args: SurfaceFilesArgs) -> Preview:
        return Preview(kind="text", text="\n".join(args.paths))

    def touches(self, args: SurfaceFilesArgs) -> Sequence[Resource]:
        return [Resource(kind="path", value=path, access="read") for path in args.paths]

    async def run(self, args: SurfaceFilesArgs, context: ToolContext) -> ToolResult:
        folder = self._terms.folder
        places = args.settle(folder.workspace, args.paths)
        for place in places.values():
            folder.workspace.require(place, "regular")
        texts = await self._terms.files.bring(folder, list(places.values()), (context.call_id, self.name))
        return ToolResult(parts=tuple(TextPart(text=text) for text in texts), summary=f"{len(texts)} files")
