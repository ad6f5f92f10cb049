"""Calls of one answer that are the same: one question to the person, one answer for all of them."""

from collections import Counter
from collections.abc import Sequence

from vibe_jupyter.protocol import Approve, Reject, ToolCall

_Key = tuple[str, str]


class EqualCalls:
    """What was said to each distinct call of the answer that is being worked on."""

    def __init__(self) -> None:
        self._left: Counter[_Key] = Counter()
        self._said: dict[_Key, tuple[str, Approve | Reject]] = {}

    def begin(self, calls: Sequence[ToolCall]) -> None:
        """A new answer: what was said before holds no more."""
        self._left = Counter(map(_key, calls))
        self._said.clear()

    def count(self, call: ToolCall) -> int:
        """How many calls of this answer are this one."""
        return self._left[_key(call)]

    def said(self, call: ToolCall, digest: str) -> Approve | Reject | None:
        """The person's answer to exactly this, where they gave one in this turn."""
        shown, command = self._said.get(_key(call), ("", None))
        return command if shown == digest else None

    def keep(self, call: ToolCall, digest: str, command: Approve | Reject) -> None:
        """Remember an answer for the equal calls that follow."""
        if self.count(call) > 1:
            self._said[_key(call)] = (digest, command)


def _key(call: ToolCall) -> _Key:
    return call.name, call.arguments
