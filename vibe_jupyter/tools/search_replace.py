"""The tool `search_replace`: change parts of a text file."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ConfigDict, Field, model_validator

from vibe_jupyter.errors import NothingDone, ToolError
from vibe_jupyter.files.access import FileAccess, FileChangeArgs, Target, diff_size, shown_notes, unified_diff
from vibe_jupyter.files.edits import (
    BlockReading,
    EditBlock,
    EditedText,
    EditError,
    apply_blocks,
    decode_text,
    parse_blocks,
)
from vibe_jupyter.files.workspace import Located
from vibe_jupyter.protocol import Headline, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.contract import UNLISTED, Tool, ToolContext, ToolOptions

EDIT_LIMIT: Final = 50_000_000  # bytes; larger files are not edited
_BACKUP: Final = ".bak"


class SearchReplaceOptions(ToolOptions):
    """Settings in ``[tools.search_replace]``."""

    max_content_size: int = Field(default=100_000, ge=1)  # bytes of all blocks together
    create_backup: bool = False
    # Minimum similarity of a passage that is suggested if the search text isn't found
    fuzzy_threshold: float = Field(default=0.9, ge=0, le=1)


class SearchReplaceArgs(FileChangeArgs):
    """Which file, and its changes: in blocks, or as one replacement."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"required": ["file_path", "content"]})

    file_path: str = Field(min_length=1)
    content: str = ""
    # Other agents' name for a single SEARCH text; accepted but not in the schema
    old_string: str | None = Field(default=None, json_schema_extra=UNLISTED)
    new_string: str | None = Field(default=None, json_schema_extra=UNLISTED)
    replace_all: bool = Field(default=False, json_schema_extra=UNLISTED)

    @model_validator(mode="after")
    def _one_way(self) -> "SearchReplaceArgs":
        if (self.old_string is None) != (self.new_string is None) or (self.content and self.old_string is not None):
            raise ValueError("give content with SEARCH/REPLACE blocks, or else old_string and new_string")
        return self


@dataclass(frozen=True)
class _Plan:
    """The effect of a call on the file's current content."""

    target: Target
    old: str
    edited: EditedText
    content: bytes
    blocks: int


class SearchReplaceTool(Tool[SearchReplaceArgs]):
    """Replaces passages that occur exactly once, all or none. All other bytes are preserved."""

    name = "search_replace"
    description = (
        "Change parts of a file you have read. content holds one or more blocks:\n"
        "<<<<<<< SEARCH\nexact text, once in the file\n=======\nnew text\n>>>>>>> REPLACE\n"
        "In order, all or none. Blanks count. For cells use edit_cell."
    )
    arguments = SearchReplaceArgs
    without_values = "of code files"

    def __init__(self, files: FileAccess, options: SearchReplaceOptions | None = None) -> None:
        self._files = files
        self._options = options or SearchReplaceOptions()

    def headline(self, args: SearchReplaceArgs) -> Headline:
        return Headline(verb="Edited", doing="Editing", asking="Edit", target=args.file_path)

    def preview(self, args: SearchReplaceArgs) -> Preview:
        try:
            target = self._files.before(self._locate_file(args), EDIT_LIMIT)
            made_from = args.show(target)
            blocks = self._blocks_of(args)
            if not target.located.is_open:
                return Preview(kind="diff", text=_unplaced_blocks(blocks), made_from=made_from)
            plan = self._plan_edit(target, blocks, args)
        except ToolError as error:
            return Preview(kind="text", text=str(error))
        edits = "content" if args.content else "new_string"
        language = target.located.path.suffix.removeprefix(".")
        change = unified_diff(plan.old, plan.edited.text)
        return Preview(kind="diff", text=change, language=language, edits=edits, made_from=made_from)

    def touches(self, args: SearchReplaceArgs) -> Sequence[Resource]:
        return [Resource(kind="path", value=path, access="write") for path in self._touched_paths(args)]

    async def precheck(self, args: SearchReplaceArgs) -> None:
        """Check the blocks' syntax and, if the file may be read, that they match. Runs before the user is asked."""
        await self._files.refuse_notebook(self._locate_file(args))
        await asyncio.to_thread(self._check_args, args)

    async def look(self, args: SearchReplaceArgs) -> None:
        """Do nothing: the preview reads the file itself."""

    async def wait_for_change(self, args: SearchReplaceArgs) -> None:
        """Wait for a change of the file while the card is open."""
        await self._files.wait_for_change(self._locate_file(args))

    async def run(self, args: SearchReplaceArgs, context: ToolContext) -> ToolResult:
        await self._files.refuse_notebook(self._locate_file(args))
        return await asyncio.to_thread(self._edit_file, args)

    def _touched_paths(self, args: SearchReplaceArgs) -> tuple[str, ...]:
        """Return all paths that are written, the file itself first."""
        return (args.file_path, f"{args.file_path}{_BACKUP}") if self._options.create_backup else (args.file_path,)

    def _locate_file(self, args: SearchReplaceArgs) -> Located:
        return self._files.place(args, *self._touched_paths(args))

    def _check_args(self, args: SearchReplaceArgs) -> None:
        blocks, located = self._blocks_of(args), self._locate_file(args)
        if located.is_open:
            self._plan_edit(self._files.before(located, EDIT_LIMIT), blocks, args)

    def _edit_file(self, args: SearchReplaceArgs) -> ToolResult:
        target = self._files.now(self._locate_file(args), EDIT_LIMIT)
        if not args.fits(target):
            raise NothingDone(f"{args.file_path!r} was changed since it was shown. Nothing was written. Read it again.")
        plan = self._plan_edit(target, self._blocks_of(args), args)
        backup = self._write_backup(args, target)
        notes = self._files.write(plan.target, plan.content, backup=backup)
        if backup:
            notes = (*notes, f"the old file is kept as {target.located.path.name}{backup}")
        return _edit_result(args, plan, notes)

    def _write_backup(self, args: SearchReplaceArgs, target: Target) -> str:
        """Return the suffix of the backup file, or "".

        The backup is written next to the file, so that path is checked too.
        """
        if not self._options.create_backup:
            return ""
        judged = self._files.place(args, *reversed(self._touched_paths(args)))
        if not self._files.keeps_backup(target, judged, f"{target.located.path.name}{_BACKUP}"):
            raise NothingDone(f"{args.file_path!r} is a link. Nothing was written. Edit {target.located.shown} itself.")
        return _BACKUP

    def _blocks_of(self, args: SearchReplaceArgs) -> tuple[EditBlock, ...]:
        if args.old_string is not None:
            return (EditBlock("old_string", (BlockReading(args.old_string, args.new_string or ""),)),)
        limit = self._options.max_content_size
        count = len(args.content.encode("utf-8", "replace"))
        if count > limit:
            raise EditError(
                "too_large",
                f"content is too large: {count:,} bytes, and search_replace takes {limit:,}. Send smaller blocks.",
            )
        return parse_blocks(args.content)

    def _plan_edit(self, target: Target, blocks: tuple[EditBlock, ...], args: SearchReplaceArgs) -> _Plan:
        given = target.located.given
        if not target.exists:
            hint = self._files.near_paths(target.located)
            raise NothingDone(f"{given!r} does not exist.{hint} A new file is made with write_file.")
        if target.content is None:
            raise EditError("too_large", f"{given!r} is too large to edit: {target.size:,} bytes. Use run_code.")
        old = decode_text(target.content, given)
        # Permission to write a file that may contain secrets doesn't include reading it.
        threshold = self._options.fuzzy_threshold if target.located.is_open else None
        edited = apply_blocks(old.text, blocks, threshold=threshold, replace_all=args.replace_all)
        return _Plan(target, old.text, edited, old.encoded(edited.text), len(blocks))


def _unplaced_blocks(blocks: Sequence[EditBlock]) -> str:
    """Diff the blocks themselves, for a file that must not be read before approval."""
    readings = [block.readings[0] for block in blocks]
    return "\n".join(unified_diff(f"{one.search}\n", f"{one.replace}\n" if one.replace else "") for one in readings)


def _edit_result(args: SearchReplaceArgs, plan: _Plan, notes: tuple[str, ...]) -> ToolResult:
    shown, edited = plan.target.located.shown, plan.edited
    change = unified_diff(plan.old, edited.text)
    fields = [
        f"file: {shown}",
        f"blocks_applied: {plan.blocks}",
        f"lines_changed: {edited.lines_changed}",
        f"content: as given, at line {', '.join(str(line) for line in edited.lines)}",
        *shown_notes(notes),
    ]
    return ToolResult(
        parts=(TextPart(text="\n".join(fields)),),
        summary="; ".join([diff_size(change), *notes]),
        details={
            "file": shown,
            "blocks_applied": plan.blocks,
            "lines_changed": edited.lines_changed,
            "content": args.content,
            "warnings": list(notes),
        },
    )
