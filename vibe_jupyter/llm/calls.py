"""Calls as they come in, fragment by fragment, and which fragment belongs to which call (security 3, Calls)."""

import uuid
from collections.abc import Callable

from vibe_jupyter.llm.surrogates import PairJoiner, repair
from vibe_jupyter.protocol import ToolCall, ToolCallDelta


def new_call_id() -> str:
    """An id for a call that came without one: nine letters and digits, since Mistral takes no other."""
    return uuid.uuid4().hex[:9]


class _Growing:
    """One call."""

    def __init__(self, position: int, index: int | None) -> None:
        self.position = position
        self.index = index
        self.id = ""
        self.name = ""
        self.shown_name = ""
        self._arguments: list[str] = []
        self._joiner = PairJoiner()

    def add_name(self, piece: str) -> None:
        """Join a fragment; a repeat of the whole name is none."""
        if piece != self.name:
            self.name += piece
            self.shown_name = repair(self.name)

    def add_arguments(self, piece: str) -> str:
        """Join a fragment and return what of it can be shown."""
        shown = self._joiner.feed(piece)
        self._arguments.append(shown)
        return shown

    def set_arguments(self, text: str) -> str:
        """Take arguments that came as a value instead of text."""
        self._arguments = [repair(text)]
        return self._arguments[0]

    @property
    def arguments(self) -> str:
        return "".join(self._arguments) + self._joiner.end()


class CallList:
    """The calls of one answer, in order."""

    def __init__(self, new_id: Callable[[], str] = new_call_id) -> None:
        self._new_id = new_id
        self._calls: list[_Growing] = []
        self._by_index: dict[int, _Growing] = {}
        """The newest call at each index."""

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, *, index: int | None, call_id: str, name: str, arguments: str, whole: bool) -> ToolCallDelta:
        """Take a fragment. `call_id` and `name` are empty where none came; `whole` replaces the arguments so far."""
        if index is None:
            call = self._without_index(call_id, name)
        else:
            call = self._by_index.get(index)
            if call is None or call_id:
                call = self._at(index, call_id)
        if call_id and not call.id:
            call.id = call_id
        if name:
            call.add_name(name)
        shown = call.set_arguments(arguments) if whole else call.add_arguments(arguments)
        return ToolCallDelta(call.position, call.shown_name, shown)

    def grow(self, index: int, arguments: str) -> ToolCallDelta | None:
        """Take a fragment that is nothing but arguments; None where no call is at this index."""
        call = self._by_index.get(index)
        if call is None:
            return None
        return ToolCallDelta(call.position, call.shown_name, call.add_arguments(arguments))

    def finish(self) -> list[ToolCall]:
        """All calls, with ids that are there and unique. A fragment that never said anything is none."""
        calls: list[ToolCall] = []
        taken: set[str] = set()
        for growing in self._calls:
            arguments = growing.arguments
            if not (growing.id or growing.name or arguments.strip()):
                continue
            call_id = repair(growing.id)
            while not call_id or call_id in taken:
                call_id = self._new_id()
            taken.add(call_id)
            blank = arguments.strip() in {"", "null"}
            calls.append(ToolCall(id=call_id, name=repair(growing.name), arguments="{}" if blank else arguments))
        return calls

    def _at(self, index: int, call_id: str) -> _Growing:
        call = self._by_index.get(index)
        if call is None or (call_id and call.id and call_id != call.id):
            earlier = (old for old in self._calls if old.index == index and old.id == call_id)
            call = self._by_index[index] = next(earlier, None) or self._new(index)
        return call

    def _without_index(self, call_id: str, name: str) -> _Growing:
        if call_id:
            return next((call for call in self._calls if call.id == call_id), None) or self._new(None)
        return self._calls[-1] if self._calls and not name else self._new(None)

    def _new(self, index: int | None) -> _Growing:
        self._calls.append(_Growing(len(self._calls), index))
        return self._calls[-1]
