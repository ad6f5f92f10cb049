"""The conversation of one kernel: what the journal recorded, folded into the history that the model sees.

Every call has exactly one result, in call order. A call that a crash left open is closed here, always with the same
words, so requests of one conversation stay prefixes of each other. Nothing is ever run again.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from vibe_jupyter.protocol import (
    AssistantMessage,
    CarriedOver,
    DurableEvent,
    HistoryRewritten,
    Message,
    MessageAdded,
    RunFinished,
    RunStarted,
    TextPart,
    ToolCall,
    ToolFinished,
    ToolMessage,
    ToolStarted,
    Usage,
    UserMessage,
)
from vibe_jupyter.session.journal import EventLog, Journal, JournalContents, JournalNote, UnkeptJournal

NOT_STARTED = "Interrupted before it started: nothing was done."
MAY_HAVE_RUN = "Interrupted: it may have run, wholly or in part. Check before doing it again."
TITLE_LENGTH: Final = 80
"""Characters of a title that a prompt gives."""
RESULT_LOST = "It ran to its end, but the result was lost. Check before doing it again."


class Conversation:
    """Appends to the journal first and to the history second, so that memory never knows more than the disk."""

    def __init__(self, journal: EventLog, session_id: str = "") -> None:
        self.journal = journal
        self.id = session_id
        self.title = ""
        """Given by the user; empty where the first prompt stands for it."""
        self.schema_only = False
        """Whether no value of the user's data is in it."""
        self._history: list[Message] = []
        self.prompts: list[str] = []
        """What the user asked, as it was written, but for secrets."""
        self.usage = Usage.model_construct()
        """Tokens of all finished runs."""
        self.rewrites = 0
        """How often the history was rewritten."""
        self.counted_from = 0
        """Message from which on the servers' token counts are of the present history."""
        self.rewritten_size = 0
        """Tokens of a request after the latest rewrite, about; 0 where there was none."""
        self.carried = CarriedOver.model_construct()
        """What the latest compaction kept word for word."""
        self.overflowed_at: int | None = None
        """Tokens that a model server refused as too many; None where none did."""
        self.cost = 0.0
        """US dollars of all finished runs, as far as prices are known."""
        self.server_sessions: dict[str, str] = {}
        """What model servers call their part of this conversation, by their address."""

    def beside(self, *names: str) -> "Conversation":
        """A new conversation that is no session of its own, kept in a folder below this one's.

        Raises:
            JournalError: it cannot be kept.
        """
        if self.folder is None:
            return Conversation(UnkeptJournal(), names[-1])
        folder = self.folder.joinpath(*names)
        return Conversation(Journal.create(folder, session_id=names[-1], schema_only=self.schema_only), names[-1])

    @classmethod
    def resumed(cls, journal: Journal, contents: JournalContents) -> "Conversation":
        """One that goes on where its journal ends. Nothing is run again."""
        made = cls(journal, contents.header.session_id if contents.header else "")
        made.schema_only = contents.header is not None and contents.header.schema_only
        for place, event in enumerate(contents.events):
            if isinstance(event, HistoryRewritten):
                made._history = list(fold_history(contents.events[:place]))
            if isinstance(event, RunFinished | HistoryRewritten):
                made.apply(event)
        made._history = list(fold_history(contents.events))
        made.prompts = [prompt for _, prompt in fold_prompts(contents.events)]
        made.title = next((note.title for note in reversed(contents.notes) if note.title is not None), "")
        return made

    @property
    def folder(self) -> Path | None:
        """Where files of the conversation are kept; None where nothing is."""
        return self.journal.folder

    @property
    def history(self) -> tuple[Message, ...]:
        """What the model is sent, without the system prompt. Grows, and is rewritten by `HistoryRewritten` alone."""
        return tuple(self._history)

    async def note(self, note: JournalNote) -> None:
        """Write down what became known of the conversation.

        Raises:
            JournalError: it could not be written.
        """
        await self.journal.append(note)
        if note.title is not None:
            self.title = note.title

    async def record(self, event: DurableEvent) -> None:
        """Write an event to disk, then take it into account.

        Raises:
            JournalError: it could not be written; the history is unchanged.
        """
        writing = asyncio.ensure_future(self.journal.append(event))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            # What the journal has begun to write, it writes: memory follows it also when nobody waits any more.
            await asyncio.wait([writing])
            if not writing.cancelled() and writing.exception() is None:
                self.apply(event)
            raise
        self.apply(event)

    def apply(self, event: DurableEvent) -> None:
        """Take an event into account that could not be written: only to keep the history valid on the way out."""
        match event:
            case MessageAdded(message=message, in_history=True):
                self._history.append(message)
            case HistoryRewritten():
                self._history = rewrite_history(self._history, event)
                self.rewrites += 1
                self.counted_from, self.rewritten_size = len(self._history), event.tokens_after
                self.carried = event.carried if event.kind == "compacted" else self.carried
            case RunStarted(prompt=prompt) if prompt:
                self.prompts.append(prompt)
            case RunFinished(usage=usage, cost=cost):
                self.usage = self.usage + usage
                self.cost += cost or 0.0
            case _:
                pass


class _OpenCalls:
    """The calls of the latest assistant message, until something other than a result follows."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._calls = calls
        self._results: dict[str, ToolMessage] = {}
        self._fates = {call.id: NOT_STARTED for call in calls}

    def take(self, result: ToolMessage) -> None:
        """Keep the first result of each call; one that answers no open call has no place in a valid history."""
        if result.call_id in self._fates:
            self._results.setdefault(result.call_id, result)

    def note(self, call_id: str, fate: str) -> None:
        """Remember how far a call came."""
        if call_id in self._fates:
            self._fates[call_id] = fate

    def close(self) -> list[ToolMessage]:
        """One result for each call, in call order."""
        return [self._results.get(call.id) or self._interrupted_result(call) for call in self._calls]

    def _interrupted_result(self, call: ToolCall) -> ToolMessage:
        text = TextPart(text=self._fates[call.id])
        return ToolMessage(call_id=call.id, name=call.name, parts=(text,), is_error=True)


def title_of(prompt: str) -> str:
    """The first line of a prompt that says something, shortened."""
    line = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    line = "".join(filter(str.isprintable, line))
    return line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1].rstrip()}…"


def fold_history(events: Iterable[DurableEvent]) -> tuple[Message, ...]:
    """The history a session's events add up to."""
    history: list[Message] = []
    open_calls = _OpenCalls(())
    for event in events:
        match event:
            case MessageAdded(in_history=False):
                pass
            case MessageAdded(message=ToolMessage() as result):
                open_calls.take(result)
            case MessageAdded(message=message) if not _is_empty(message):
                history += open_calls.close()
                history.append(message)
                open_calls = _OpenCalls(message.calls if isinstance(message, AssistantMessage) else ())
            case HistoryRewritten():
                history = rewrite_history([*history, *open_calls.close()], event)
                open_calls = _OpenCalls(())
            case ToolStarted(call_id=call_id, trial=False):
                open_calls.note(call_id, MAY_HAVE_RUN)
            case ToolFinished(call_id=call_id, outcome="ok" | "error"):
                open_calls.note(call_id, RESULT_LOST)
            case _:
                pass
    return (*history, *open_calls.close())


def rewrite_history(history: Sequence[Message], event: HistoryRewritten) -> list[Message]:
    """The history after a rewrite. One that met another history than it was made for, since a journal was damaged,
    changes nothing, unless it stands for all of it."""
    if len(history) != event.length:
        whole = event.kind == "compacted" and len(event.edits) == 1
        return list(event.edits[0].by) if whole else list(history)
    rewritten: list[Message] = []
    place = 0
    for edit in event.edits:
        rewritten += [*history[place : edit.at], *edit.by]
        place = edit.at + edit.length
    return [*rewritten, *history[place:]]


def fold_prompts(events: Iterable[DurableEvent]) -> Iterator[tuple[int, str]]:
    """Each prompt of the user, with the place of its event."""
    known = False
    for place, event in enumerate(events):
        match event:
            case RunStarted(prompt=prompt):
                known = bool(prompt)
                if known:
                    yield place, prompt
            case MessageAdded(message=UserMessage() as message) if not known:
                # Version 1 of the journal did not say it. What the notebook added stands before the prompt.
                texts = [part.text for part in message.parts if isinstance(part, TextPart)]
                if texts:
                    yield place, texts[-1]
            case _:
                pass


def open_calls(history: Sequence[Message]) -> list[ToolCall]:
    """The calls of the last answer that have no result yet, in order."""
    answered: set[str] = set()
    for message in reversed(history):
        match message:
            case ToolMessage():
                answered.add(message.call_id)
            case AssistantMessage():
                return [call for call in message.calls if call.id not in answered]
            case _:
                break
    return []


def check_history(history: Sequence[Message]) -> None:
    """Hold a history to what every model server demands of it.

    Raises:
        ValueError: a call has not exactly one result in its place, or an answer says nothing.
    """
    awaited: list[str] = []
    for place, message in enumerate(history):
        if isinstance(message, ToolMessage):
            if awaited[:1] != [message.call_id]:
                raise ValueError(f"Message {place} answers {message.call_id!r}, awaited in order: {awaited}")
            awaited.pop(0)
            continue
        if awaited:
            raise ValueError(f"Message {place} comes before the results of {awaited}")
        if _is_empty(message):
            raise ValueError(f"Message {place} is an answer that says nothing")
        if isinstance(message, AssistantMessage):
            awaited = [call.id for call in message.calls]
            if len(set(awaited)) != len(awaited):
                raise ValueError(f"Message {place} has two calls of one id: {awaited}")
    if awaited:
        raise ValueError(f"The history ends before the results of {awaited}")


def _is_empty(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and not message.calls and not message.text
