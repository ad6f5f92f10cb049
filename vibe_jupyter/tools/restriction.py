"""Restrictions that a tool imposes on its own calls."""

from typing import Any, NamedTuple, Protocol, runtime_checkable


class Restriction(NamedTuple):
    """A tool's verdict on one of its calls. It can only narrow permissions: the user's rules apply all the same."""

    denies: bool  # False if the user must be asked instead
    reason: str


@runtime_checkable
class SelfRestrictingTool(Protocol):
    """A tool whose code may deny a call or require approval."""

    async def restriction(self, args: Any) -> Restriction | None:
        """Return the restriction of this call, or None."""
        ...
