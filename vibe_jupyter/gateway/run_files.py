"""Files of one run: those that the client requested, and those that tools produce."""

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

MOST_OF_CALL: Final = 64  # files delivered from one call; further ones stay in the working folder
MOST_OF_RUN: Final = 256
MADE_LIMIT: Final = 64 * 1024 * 1024  # bytes of a produced file that are delivered to the client
NOT_MADE: Final = "file_not_made"
TOO_LARGE: Final = "file_too_large"
WANTED: Final = "The answer should come with these files"
WANTED_IN_FOLDER: Final = "Write these files into the working folder; they go to the user with your answer"


class RunFiles:
    """Files of one exchange."""

    def __init__(self, store: FileStore, wanted: Sequence[RequestedFile], turn: int) -> None:
        """
        Args:
            store: store of the token's files.
            wanted: files that the client requested.
            turn: number of the question in its conversation, from 1.
        """
        self.all: list[FileObject] = []  # in order of creation
        self.round = 0
        self._store = store
        self._wanted: Mapping[str, RequestedFile] = {one.name: one for one in wanted}
        self._turn = turn
        self._run = new_run()
        self._told = 0
        self._of_calls: dict[str, list[str]] = {}

    def of_call(self, call_id: str) -> list[str]:
        """Return the IDs of the files that a call produced."""
        return self._of_calls.get(call_id, [])

    def made_by(self, call_id: str) -> list[FileObject]:
        """Return the files that a call produced."""
        ids = self._of_calls.get(call_id, ())
        return [one for one in self.all if one.id in ids]

    async def new(self) -> list[Object]:
        """Return the file objects added since the previous call. Small bodies are included."""
        new, self._told = self.all[self._told :], len(self.all)
        return [await self._store.inline(one) for one in new]

    async def inline(self) -> list[Object]:
        """Return all file objects. Small bodies are included."""
        return [await self._store.inline(one) for one in self.all]

    async def surface(
        self, folder: WorkFolder, before: Mapping[str, FileStamp], result: ToolResult, call: tuple[str, str]
    ) -> ToolResult:
        """Deliver the files that a call created or changed.

        Args:
            folder: the call's working folder.
            before: stamps of the folder's files before the call.
            result: the call's result.
            call: its ID, and the name of its tool.

        Returns:
            The result, with a description of the files for the model.
        """
        after = await asyncio.to_thread(folder.stamps)
        names = [name for name, stamp in after.items() if before.get(name) != stamp]
        places = [folder.workspace.resolve(name) for name in names[:MOST_OF_CALL]]
        texts = await self.bring(folder, places, call)
        if left := names[MOST_OF_CALL:]:
            texts.append(f"[{len(left)} further files stay in the working folder, such as {left[0]}]")
        return result.model_copy(update={"parts": (*result.parts, *(TextPart(text=text) for text in texts))})

    async def bring(self, folder: WorkFolder, places: Sequence[Located], call: tuple[str, str]) -> list[str]:
        """Deliver files to the client. Returns a description of each for the model."""
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
            except ToolError as error:  # deleted meanwhile, or no longer a regular file
                texts.append(f"[{error}]")
                continue
            made = await self._add(PurePosixPath(place.shown).as_posix(), body, tool)
            self._of_calls.setdefault(call_id, []).append(made.id)
            texts.append(file_text(InputFile(made.name, body or b"", made.id), made.preview or ""))
        return texts

    async def add_missing(self) -> None:
        """Record a failure for each requested file that no call produced."""
        made = {one.name for one in self.all}
        for name, one in self._wanted.items():
            if name not in made:
                await self._keep(name, None, "", FileFailure(NOT_MADE, f"No tool made {one.name}."))

    def asked(self, messages: Sequence[JsonValue], *, has_folder: bool) -> Sequence[JsonValue]:
        """Append the list of requested files to the latest question. Returns the same object if none are requested."""
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
    """Return the bytes of a file, or None if there are more than `MADE_LIMIT`."""
    if not place.inside:
        raise ToolError(f"{place.given!r} is not in the working folder.")
    with folder.workspace.open_read(place) as file:
        body = file.read(MADE_LIMIT + 1)
    return None if len(body) > MADE_LIMIT else body


def _is_question(message: JsonValue) -> bool:
    return isinstance(message, dict) and message.get("role") == "user"
