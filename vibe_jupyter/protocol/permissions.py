"""What a call touches, and what the policy says to it."""

from typing import Literal

from vibe_jupyter.protocol.value import Value

Level = Literal["always", "ask", "never"]
"""How a tool is allowed in the configuration (seed 001, ToolPermission System)."""


class Resource(Value):
    """One thing a call touches."""

    kind: Literal["path", "command", "code", "variable", "cell", "url", "mcp", "memory", "tool"]
    value: str
    access: Literal["read", "write", "execute"]


class Allow(Value):
    """The call may run."""

    decision: Literal["allow"] = "allow"
    rule: str
    """Which rule allowed it, in words for the log."""


class Ask(Value):
    """The call runs only after a person approved exactly this call."""

    decision: Literal["ask"] = "ask"
    reason: str
    """Why it asks, in words a person reads on the card: ``runs code in this kernel``."""
    remember_as: str | None
    """The pattern a grant would store; None where only a single approval may be given."""
    keepable: bool = False
    """Whether a grant may be kept for the project, and not for this session alone."""


class Deny(Value):
    """The call does not run."""

    decision: Literal["deny"] = "deny"
    reason: str
    """Read by the model and by the person."""


Decision = Allow | Ask | Deny
