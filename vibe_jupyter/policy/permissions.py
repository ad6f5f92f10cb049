"""May this call run? One decision per call, from its tool's level and from what it touches."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from vibe_jupyter.errors import ToolError
from vibe_jupyter.protocol import Allow, Ask, Decision, Deny, Level, Resource
from vibe_jupyter.tools.base import Graded, Tool
from vibe_jupyter.tools.workspace import Workspace

_SHOWN = ("url", "read")
REASONS = {
    ("code", "execute"): "runs code in this kernel",
    ("command", "execute"): "runs a shell command",
    ("cell", "execute"): "runs code",
    ("cell", "write"): "changes your notebook",
    ("path", "write"): "writes a file",
    ("path", "read"): "reads a file",
    ("variable", "read"): "looks at a variable",
    _SHOWN: "loads an address",
    ("mcp", "execute"): "calls an outside tool",
    ("memory", "write"): "changes what is remembered of this project",
}
"""Why a call asks, in the words of the card."""
RUN_CELL = "run_cell"
"""The tool whose permission every call needs that runs cells."""


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
        resources = tool.touches(args)
        levels = self._levels_needed(tool, args, resources)
        for name, level in levels.items():
            if level == "never":
                return Deny(reason=f"The person's settings do not allow the tool {name} (permission = never).")
        try:
            place = next(filter(None, map(self._place_reason, resources)), None)
        except ToolError as error:
            return Deny(reason=str(error))
        shown = _shown_from_outside(resources)
        if place is not None or shown:
            return self._asking(place or shown, None, terms)
        rules = [self._rule(name, level, terms) for name, level in levels.items()]
        if all(rules):
            return Allow(rule=rules[0])
        return self._asking(_reasons(resources), "+".join(levels), terms)

    def _levels_needed(self, tool: Tool[Any], args: BaseModel, resources: Sequence[Resource]) -> dict[str, Level]:
        """The tools that must be allowed, with their levels: who may edit cells may not yet run them."""
        asks: Level = "ask"
        level = self.levels.get(tool.name, tool.level)
        if level == "ask" and isinstance(tool, Graded):
            level = tool.level_of(args)
        levels: dict[str, Level] = {tool.name: level}
        if any(resource.kind == "cell" and resource.access == "execute" for resource in resources):
            levels.setdefault(RUN_CELL, self.levels.get(RUN_CELL, asks))
        return levels

    def _rule(self, name: str, level: Level, terms: RunTerms) -> str:
        """What allows a tool without asking; empty if nothing does."""
        if name in terms.allowed:
            return "--yes"
        if level == "always":
            return f"{name}: always"
        return f"{name}: allowed for this session" if name in self._granted else ""

    def grant(self, pattern: str) -> None:
        """Allow what `Ask.remember_as` named, until the session ends."""
        self._granted.update(pattern.split("+"))

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
    def _asking(reason: str, remember_as: str | None, terms: RunTerms) -> Decision:
        if terms.attended:
            return Ask(reason=reason, remember_as=remember_as)
        names = remember_as.split("+") if remember_as else []
        advice = (
            f" The person may allow it beforehand with --yes={','.join(names)} or, in config.toml, "
            + " and ".join(f'[tools.{name}] permission = "always"' for name in names)
            + "."
            if names
            else ""
        )
        return Deny(reason=f"Not run: it {reason}, and nobody is here to approve it.{advice}")


def _reasons(resources: Iterable[Resource]) -> str:
    words = [REASONS.get((resource.kind, resource.access), "has effects") for resource in resources]
    return " · ".join(dict.fromkeys(words)) or "has effects"


def _shown_from_outside(resources: Sequence[Resource]) -> str:
    """Why a cell asks, whatever its level, that makes the page load something as soon as it is shown (security C22)."""
    others = [resource for resource in resources if (resource.kind, resource.access) != _SHOWN]
    addresses = [resource.value for resource in resources if resource not in others]
    if not addresses or not any(resource.kind == "cell" and resource.access == "write" for resource in others):
        return ""
    return f"{_reasons(others)} · the page then loads {', '.join(addresses)}"
