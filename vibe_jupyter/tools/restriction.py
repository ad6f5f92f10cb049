"""A tool's own verdict on a call of it."""

from typing import Any, NamedTuple, Protocol, runtime_checkable


class Restriction(NamedTuple):
    """A tool's own verdict on a call. It only narrows: what it allows is judged by the user's rules all the same."""

    denies: bool
    """False where the user is to be asked."""
    reason: str


@runtime_checkable
class SelfRestrictingTool(Protocol):
    """A tool whose own code may refuse a call, or want the user to be asked."""

    async def restriction(self, args: Any) -> Restriction | None:
        """Return what the tool's code says of the call; None where it restricts nothing."""
        ...
