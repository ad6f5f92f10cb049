"""Locations that need approval: outside the project, protected names, devices. Opens nothing."""

from typing import Final, Literal, NamedTuple

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.protected import Access
from vibe_jupyter.files.real_path import Kind
from vibe_jupyter.files.workspace import Located, Workspace

Operation = Literal["read", "write", "list"]
OPERATIONS: Final[tuple[Operation, ...]] = ("read", "write", "list")
_VERBS: Final[dict[Operation, str]] = {"read": "reads", "write": "writes", "list": "lists"}
# Kinds of files that each operation accepts; a missing file is then "not found" rather than "outside"
_FITTING: Final[dict[Operation, tuple[Kind, ...]]] = {
    "read": ("regular", "missing"),
    "write": ("regular", "missing"),
    "list": ("directory", "regular", "missing"),
}


class PlaceVerdict(NamedTuple):
    """Verdict on a location alone, to which the tool's level adds."""

    verdict: Literal["allow", "ask", "deny"]
    rule: Literal["inside", "outside", "protected", "special", "malformed", "kind"]
    reason: str


def place_reason(located: Located, operation: Operation) -> PlaceVerdict | None:
    """Return why the user must approve access to this location, or None."""
    verb = _VERBS[operation]
    access: Access = "write" if operation == "write" else "read"
    if not located.inside:
        return PlaceVerdict("ask", "outside", f"{verb} outside the project: {located.path}")
    if why := located.protection(access):
        return PlaceVerdict("ask", "protected", f"{verb} {located.shown}, which {why}")
    if located.kind == "special":
        return PlaceVerdict("ask", "special", f"{verb} {located.shown}, which is a device, pipe or socket")
    return None


def judge_place(workspace: Workspace, path: str, operation: Operation) -> PlaceVerdict:
    """Return whether the location of a path needs its own approval. Opens nothing."""
    try:
        located = workspace.resolve(path)
    except ToolError as error:
        return PlaceVerdict("deny", "malformed", str(error))
    if reason := place_reason(located, operation):
        return reason
    if located.kind not in _FITTING[operation]:
        return PlaceVerdict("deny", "kind", f"{located.shown} is a folder, not a file")
    return PlaceVerdict("allow", "inside", f"{_VERBS[operation]} {located.shown}, inside the project")
