"""May this call run? One decision per call, from its tool's level and from what it touches."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from vibe_jupyter.errors import ToolError
from vibe_jupyter.protocol import Allow, Ask, Decision, Deny, Level, Resource
from vibe_jupyter.tools.base import Tool
from vibe_jupyter.tools.workspace import Workspace

REASONS = {
    ("code", "execute"): "runs code in this kernel",
    ("command", "execute"): "runs a shell command",
    ("cell", "execute"): "runs cells",
    ("cell", "write"): "changes your notebook",
    ("path", "write"): "writes a file",
    ("path", "read"): "reads a file",
    ("variable", "read"): "looks at a variable",
    ("url", "read"): "loads an address",
    ("mcp", "execute"): "calls an outside tool",
}
"""Why a call asks, in the words of the card."""


@dataclass(frozen=True)
class RunTerms:
    """What holds for one run only."""

    attended: bool = True
    """False where nobody can approve: what would ask is denied."""
    allowed: frozenset[str] = frozenset()
    """Tools that run without asking, from ``--yes``."""


@dataclass
class Permissions:
    """The person's rules: the levels from the configuration, and what was granted for this session."""

    workspace: Workspace
    levels: Mapping[str, Level] = field(default_factory=dict[str, Level])
    """Tool name to level, where the configuration says more than the tool's own."""
    _granted: set[str] = field(default_factory=set[str])

    def decide(self, tool: Tool[Any], args: BaseModel, terms: RunTerms) -> Decision:
        """Decide one call. Opens nothing."""
        level = self.levels.get(tool.name, tool.level)
        if level == "never":
            return Deny(reason=f"The person's settings do not allow the tool {tool.name} (permission = never).")
        resources = tool.touches(args)
        try:
            place = next(filter(None, map(self._place_reason, resources)), None)
        except ToolError as error:
            return Deny(reason=str(error))
        if place is not None:
            return self._asking(tool.name, place, None, terms)
        if tool.name in terms.allowed:
            return Allow(rule="--yes")
        if level == "always":
            return Allow(rule=f"{tool.name}: always")
        if tool.name in self._granted:
            return Allow(rule=f"{tool.name}: allowed for this session")
        reasons = dict.fromkeys(REASONS.get((r.kind, r.access), "has effects") for r in resources)
        return self._asking(tool.name, " · ".join(reasons) or "has effects", tool.name, terms)

    def grant(self, pattern: str) -> None:
        """Allow what `Ask.remember_as` named, until the session ends."""
        self._granted.add(pattern)

    def granted(self) -> tuple[str, ...]:
        """What was granted for this session, sorted."""
        return tuple(sorted(self._granted))

    def forget(self) -> None:
        """Take back every session grant."""
        self._granted.clear()

    def _place_reason(self, resource: Resource) -> str | None:
        """Why the place itself asks, whatever the tool's level (security C9, C11); None when it does not."""
        if resource.kind != "path":
            return None
        access = "write" if resource.access == "write" else "read"
        verb = "writes" if access == "write" else "reads"
        located = self.workspace.resolve(resource.value)
        if not located.inside:
            return f"{verb} outside the project: {located.path}"
        if why := located.protection(access):
            return f"{verb} {located.shown}, which {why}"
        if located.kind == "special":
            return f"{verb} {located.shown}, which is a device, pipe or socket"
        return None

    @staticmethod
    def _asking(name: str, reason: str, remember_as: str | None, terms: RunTerms) -> Decision:
        if terms.attended:
            return Ask(reason=reason, remember_as=remember_as)
        advice = (
            f" The person may allow it beforehand with --yes={name} or, in config.toml, "
            f'[tools.{name}] permission = "always".'
            if remember_as
            else ""
        )
        return Deny(reason=f"Not run: it {reason}, and nobody is here to approve it.{advice}")
