"""The tool `write_file`: create a file, or replace one completely."""

import asyncio
from collections.abc import Sequence
from typing import Final

from pydantic import Field

from vibe_jupyter.errors import NothingDone, ToolError
from vibe_jupyter.files.access import FileAccess, FileChangeArgs, Target, diff_size, shown_notes, unified_diff
from vibe_jupyter.files.workspace import Located
from vibe_jupyter.protocol import Headline, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.contract import Tool, ToolContext, ToolOptions

# Bytes of an existing file that is shown as a diff; for a larger one only the new content is shown
COMPARED: Final = 1_000_000


class WriteFileOptions(ToolOptions):
    """Settings in ``[tools.write_file]``."""

    max_write_bytes: int = Field(default=64_000, ge=1)
    create_parent_dirs: bool = True


class WriteFileArgs(FileChangeArgs):
    """Where, and what."""

    path: str = Field(min_length=1)
    content: str
    overwrite: bool = False


class WriteFileTool(Tool[WriteFileArgs]):
    """Writes a file completely or not at all. Replaces only content that the user was shown."""

    name = "write_file"
    description = (
        "Make a file, with its folders. overwrite replaces one: read it first, prefer search_replace. "
        "No unasked documentation. For cells use insert_cell."
    )
    arguments = WriteFileArgs
    without_values = "of code files"

    def __init__(self, files: FileAccess, options: WriteFileOptions | None = None) -> None:
        self._files = files
        self._options = options or WriteFileOptions()

    def headline(self, args: WriteFileArgs) -> Headline:
        note = "in place of what is there" if args.overwrite else ""
        return Headline(verb="Wrote", doing="Writing", asking="Write", target=args.path, note=note)

    def preview(self, args: WriteFileArgs) -> Preview:
        try:
            target = self._files.before(self._locate_file(args), COMPARED)
            made_from = args.show(target)
            self._encode_content(args, target)
        except ToolError as error:
            return Preview(kind="text", text=str(error))
        old = _comparable_text(target.content) if target.content is not None else None
        if old is not None:
            change = unified_diff(old, args.content)
            kind, text = ("diff", change) if change else ("text", f"{args.path} already has this content.")
            language = target.located.path.suffix.removeprefix(".")
            return Preview(kind=kind, text=text, language=language, edits="content", made_from=made_from)
        language = target.located.path.suffix.removeprefix(".")
        return Preview(kind="code", text=args.content, language=language, edits="content", made_from=made_from)

    def touches(self, args: WriteFileArgs) -> Sequence[Resource]:
        return (Resource(kind="path", value=args.path, access="write"),)

    async def precheck(self, args: WriteFileArgs) -> None:
        """Check size and target before the user is asked."""
        await self._files.refuse_notebook(self._locate_file(args))
        await asyncio.to_thread(self._check_args, args)

    async def look(self, args: WriteFileArgs) -> None:
        """Do nothing: the preview reads the file itself."""

    async def wait_for_change(self, args: WriteFileArgs) -> None:
        """Wait for a change of the file while the card is open."""
        await self._files.wait_for_change(self._locate_file(args))

    async def run(self, args: WriteFileArgs, context: ToolContext) -> ToolResult:
        await self._files.refuse_notebook(self._locate_file(args))
        return await asyncio.to_thread(self._write_target, args)

    def _locate_file(self, args: WriteFileArgs) -> Located:
        return self._files.place(args, args.path)

    def _check_args(self, args: WriteFileArgs) -> None:
        self._encode_content(args, self._files.before(self._locate_file(args), 0))

    def _write_target(self, args: WriteFileArgs) -> ToolResult:
        target = self._files.now(self._locate_file(args), COMPARED)
        content = self._encode_content(args, target)
        if not args.fits(target):
            raise NothingDone(f"{args.path!r} was changed since it was shown. Nothing was written. Read it again.")
        notes = self._files.write(target, content, makes_folders=self._options.create_parent_dirs)
        return _write_result(args, target, len(content), notes)

    def _encode_content(self, args: WriteFileArgs, target: Target) -> bytes:
        """Encode the content, after checking that it may be written."""
        if target.exists and not args.overwrite:
            raise NothingDone(
                f"{args.path!r} exists already. Nothing was written. Change it with search_replace, or read it and "
                "set overwrite=true to replace it whole."
            )
        if self._files.is_stale(target):
            raise NothingDone(f"{args.path!r} was changed since you read it. Nothing was written. Read it again.")
        try:
            content = args.content.encode()
        except UnicodeEncodeError as error:
            raise NothingDone(f"content holds half a character at {error.start}; nothing was written.") from error
        limit = self._options.max_write_bytes
        if len(content) > limit:
            raise NothingDone(
                f"content is too large: {len(content):,} bytes, and write_file takes {limit:,}. Nothing was written. "
                "Write it in parts with search_replace, or by run_code."
            )
        return content


def _write_result(args: WriteFileArgs, target: Target, written: int, notes: tuple[str, ...]) -> ToolResult:
    lines = args.content.count("\n") + (not args.content.endswith("\n") and bool(args.content))
    fields = [
        f"path: {target.located.shown}",
        f"bytes_written: {written}",
        f"file_existed: {'true' if target.exists else 'false'}",
        f"content: as given, {lines:,} line{'s' * (lines != 1)}",
        *shown_notes(notes),
    ]
    old = _comparable_text(target.content) if target.content is not None else None
    count = diff_size(unified_diff(old, args.content)) if old is not None else f"{lines:,} line{'s' * (lines != 1)}"
    return ToolResult(
        parts=(TextPart(text="\n".join(fields)),),
        summary="; ".join([count, *notes]),
        details={
            "path": target.located.shown,
            "bytes_written": written,
            "file_existed": target.exists,
            "content": args.content,
        },
    )


def _comparable_text(content: bytes) -> str | None:
    """Decode content for a diff, or return None if it isn't text."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
