"""Conversation of one kernel: the journal's events, folded into the history that the model sees.

Each call has exactly one result, in call order. Calls left open by a crash are closed here, always with the same text,
so that requests of one conversation remain prefixes of each other (and prompt caches valid). Nothing is run again.
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
TITLE_LENGTH: Final = 80  # characters of a title taken from a prompt
RESULT_LOST = "It ran to its end, but the result was lost. Check before doing it again."


class Conversation:
    """Journal and in-memory history of one conversation.

    Writes each event to the journal before the history, so that memory is never ahead of the disk.
    """

    def __init__(self, journal: EventLog, session_id: str = "") -> None:
        self.journal = journal
        self.id = session_id
        self.title = ""  # set by the user; if "", the first prompt serves as the title
        self.schema_only = False  # True if it contains no values of the user's data
        self._history: list[Message] = []
        self.prompts: list[str] = []  # the user's prompts as typed, except for redacted secrets
        # model_construct skips validation, so that pydantic doesn't build the model before the first request.
        self.usage = Usage.model_construct()  # tokens of all finished runs
        self.rewrites = 0  # number of history rewrites
        # Index of the first message from which on token counts of servers refer to the current history.
        self.counted_from = 0
        self.rewritten_size = 0  # estimated tokens of a request after the latest rewrite; 0 if there was none
        self.carried = CarriedOver.model_construct()  # content that the latest compaction preserved verbatim
        self.overflowed_at: int | None = None  # number of tokens that a server rejected as too long, or None
        self.cost = 0.0  # US dollars of all finished runs, as far as prices are known
        # Ids that model servers gave to their sessions of this conversation, by URL.
        self.server_sessions: dict[str, str] = {}

    def beside(self, *names: str) -> "Conversation":
        """Create a conversation that isn't listed as a session, in a subfolder of this one's.

        Raises:
            JournalError: It can't be stored.
        """
        if self.folder is None:
            return Conversation(UnkeptJournal(), names[-1])
        folder = self.folder.joinpath(*names)
        return Conversation(Journal.create(folder, session_id=names[-1], schema_only=self.schema_only), names[-1])

    @classmethod
    def resumed(cls, journal: Journal, contents: JournalContents) -> "Conversation":
        """Restore a conversation from its journal. Nothing is run again."""
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
        """Directory for files of the conversation, or None if nothing is stored."""
        return self.journal.folder

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages sent to the model, without the system prompt. Append-only, except for `HistoryRewritten`."""
        return tuple(self._history)

    async def note(self, note: JournalNote) -> None:
        """Record a note about the conversation.

        Raises:
            JournalError: It couldn't be written.
        """
        await self.journal.append(note)
        if note.title is not None:
            self.title = note.title

    async def record(self, event: DurableEvent) -> None:
        """Write an event to disk, then apply it.

        Raises:
            JournalError: It couldn't be written; the history is unchanged.
        """
        writing = asyncio.ensure_future(self.journal.append(event))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            # A write that has started will finish. Memory must follow it even if the caller was cancelled.
            await asyncio.wait([writing])
            if not writing.cancelled() and writing.exception() is None:
                self.apply(event)
            raise
        self.apply(event)

    def apply(self, event: DurableEvent) -> None:
        """Apply an event to the history in memory.

        Without `record`, only for events at the end of a run that couldn't be written.
        """
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
    """Calls of the latest assistant message, until anything but a result follows."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._calls = calls
        self._results: dict[str, ToolMessage] = {}
        self._fates = {call.id: NOT_STARTED for call in calls}

    def take(self, result: ToolMessage) -> None:
        """Store the first result of each call. A result without an open call has no place in a valid history."""
        if result.call_id in self._fates:
            self._results.setdefault(result.call_id, result)

    def note(self, call_id: str, fate: str) -> None:
        """Record the progress of a call."""
        if call_id in self._fates:
            self._fates[call_id] = fate

    def close(self) -> list[ToolMessage]:
        """Return one result per call, in call order."""
        return [self._results.get(call.id) or self._interrupted_result(call) for call in self._calls]

    def _interrupted_result(self, call: ToolCall) -> ToolMessage:
        text = TextPart(text=self._fates[call.id])
        return ToolMessage(call_id=call.id, name=call.name, parts=(text,), is_error=True)


def title_of(prompt: str) -> str:
    """Return the first non-empty line of a prompt, shortened."""
    line = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    line = "".join(filter(str.isprintable, line))
    return line if len(line) <= TITLE_LENGTH else f"{line[: TITLE_LENGTH - 1].rstrip()}…"


def fold_history(events: Iterable[DurableEvent]) -> tuple[Message, ...]:
    """Fold a session's events into its history."""
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
    """Apply a rewrite to the history.

    A rewrite made for another history, which happens if the journal was damaged, is ignored unless it replaces
    everything.
    """
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
    """Yield each user prompt with the index of its event."""
    known = False
    for place, event in enumerate(events):
        match event:
            case RunStarted(prompt=prompt):
                known = bool(prompt)
                if known:
                    yield place, prompt
            case MessageAdded(message=UserMessage() as message) if not known:
                # Journals of version 1 don't record it. The notebook's context precedes the prompt.
                texts = [part.text for part in message.parts if isinstance(part, TextPart)]
                if texts:
                    yield place, texts[-1]
            case _:
                pass


def open_calls(history: Sequence[Message]) -> list[ToolCall]:
    """Return the calls of the last answer that have no result yet, in order."""
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
    """Validate a history against the requirements of model servers.

    Raises:
        ValueError: A call doesn't have exactly one result in its place, or an answer is empty.
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
