"""The files of one run: those that were asked for, and those that its tools make."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, cast

from pydantic import JsonValue

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.file_stamps import FileStamp
from vibe_jupyter.files.workspace import Located
from vibe_jupyter.gateway.chat_request import Object, RequestedFile, message_text
from vibe_jupyter.gateway.file_names import format_of
from vibe_jupyter.gateway.files import FileFailure, FileObject, FileSource, FileStore, new_file, new_run
from vibe_jupyter.gateway.input_files import InputFile, file_text
from vibe_jupyter.gateway.work_folders import WorkFolder
from vibe_jupyter.protocol import TextPart, ToolResult

MOST_OF_CALL: Final = 64
"""Files that one call brings; further ones stay in the working folder."""
MOST_OF_RUN: Final = 256
MADE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a file that goes to the client."""
NOT_MADE: Final = "file_not_made"
TOO_LARGE: Final = "file_too_large"
WANTED: Final = "The answer should come with these files"
WANTED_IN_FOLDER: Final = "Write these files into the working folder; they go to the user with your answer"


class RunFiles:
    """Of one exchange."""

    def __init__(self, store: FileStore, wanted: Sequence[RequestedFile], turn: int) -> None:
        """
        Args:
            store: where they are kept.
            wanted: those that were asked for.
            turn: which question of its conversation this is, from 1.
        """
        self.all: list[FileObject] = []
        """In the order in which they were made."""
        self.round = 0
        self._store = store
        self._wanted: Mapping[str, RequestedFile] = {one.name: one for one in wanted}
        self._turn = turn
        self._run = new_run()
        self._told = 0
        self._of_calls: dict[str, list[str]] = {}

    def of_call(self, call_id: str) -> list[str]:
        """Ids of the files that a call brought."""
        return self._of_calls.get(call_id, [])

    def made_by(self, call_id: str) -> list[FileObject]:
        """The files that a call brought."""
        ids = self._of_calls.get(call_id, ())
        return [one for one in self.all if one.id in ids]

    async def new(self) -> list[Object]:
        """Those that were not told yet, with their bodies where these are small enough."""
        new, self._told = self.all[self._told :], len(self.all)
        return [await self._store.inline(one) for one in new]

    async def inline(self) -> list[Object]:
        """All of them, in the same way."""
        return [await self._store.inline(one) for one in self.all]

    async def surface(
        self, folder: WorkFolder, before: Mapping[str, FileStamp], result: ToolResult, call: tuple[str, str]
    ) -> ToolResult:
        """Bring what a call has made.

        Args:
            folder: where it worked.
            before: how the folder was then.
            result: of the call.
            call: its id, and the name of its tool.

        Returns:
            The result, with what is said of the files to the model.
        """
        after = await asyncio.to_thread(folder.stamps)
        names = [name for name, stamp in after.items() if before.get(name) != stamp]
        places = [folder.workspace.resolve(name) for name in names[:MOST_OF_CALL]]
        texts = await self.bring(folder, places, call)
        if left := names[MOST_OF_CALL:]:
            texts.append(f"[{len(left)} further files stay in the working folder, such as {left[0]}]")
        return result.model_copy(update={"parts": (*result.parts, *(TextPart(text=text) for text in texts))})

    async def bring(self, folder: WorkFolder, places: Sequence[Located], call: tuple[str, str]) -> list[str]:
        """Give files to the client; what is said of each to the model."""
        call_id, tool = call
        texts: list[str] = []
        for place in places:
            if len(self.all) >= MOST_OF_RUN:
                texts.append(
                    f"[{place.shown} stays in the working folder: {MOST_OF_RUN} files are enough for one answer]"
                )
                break
            try:
                body = await asyncio.to_thread(_read, folder, place)
            except ToolError as error:  # it is gone again, or something else is there
                texts.append(f"[{error}]")
                continue
            made = await self._add(PurePosixPath(place.shown).as_posix(), body, tool)
            self._of_calls.setdefault(call_id, []).append(made.id)
            texts.append(file_text(InputFile(made.name, body or b"", made.id), made.preview or ""))
        return texts

    async def add_missing(self) -> None:
        """Note the files that were asked for and that no call made."""
        made = {one.name for one in self.all}
        for name, one in self._wanted.items():
            if name not in made:
                await self._keep(name, None, "", FileFailure(NOT_MADE, f"No tool made {one.name}."))

    def asked(self, messages: Sequence[JsonValue], *, has_folder: bool) -> Sequence[JsonValue]:
        """The messages with what is wanted behind the latest question; the very same where nothing is."""
        if not self._wanted:
            return messages
        lines = [
            f"- {one.name} ({self._format(one)}){one.description and f': {one.description}'}"
            for one in self._wanted.values()
        ]
        text = "\n".join([f"{WANTED_IN_FOLDER if has_folder else WANTED}:", *lines])
        told: list[JsonValue] = list(messages)
        place = max((at for at, one in enumerate(told) if _is_question(one)), default=None)
        if place is None:
            return [*told, {"role": "user", "content": text}]
        question = cast("Object", told[place])
        content = question.get("content")
        parts: list[JsonValue] = (
            content if isinstance(content, list) else [{"type": "text", "text": message_text(content)}]
        )
        told[place] = {**question, "content": [*parts, {"type": "text", "text": text}]}
        return told

    async def _add(self, name: str, body: bytes | None, tool: str) -> FileObject:
        failure = None if body is not None else FileFailure(TOO_LARGE, f"{name} has more than {MADE_LIMIT:,} bytes.")
        return await self._keep(name, body, tool, failure)

    async def _keep(self, name: str, body: bytes | None, tool: str, failure: FileFailure | None) -> FileObject:
        source = FileSource(tool=tool, round=self.round, turn=self._turn)
        file_id = f"file_{self._run}_r{self.round}_{len(self.all)}"
        wanted = self._wanted.get(name)
        form = "" if wanted is None else wanted.format
        made = new_file(file_id, name, body, form=form, source=source, failure=failure)
        await self._store.keep(made, body)
        self.all.append(made)
        return made

    def _format(self, wanted: RequestedFile) -> str:
        return wanted.format or format_of(wanted.name) or "any format"


def _read(folder: WorkFolder, place: Located) -> bytes | None:
    """A file's bytes; None where there are too many."""
    if not place.inside:
        raise ToolError(f"{place.given!r} is not in the working folder.")
    with folder.workspace.open_read(place) as file:
        body = file.read(MADE_LIMIT + 1)
    return None if len(body) > MADE_LIMIT else body


def _is_question(message: JsonValue) -> bool:
    return isinstance(message, dict) and message.get("role") == "user"
