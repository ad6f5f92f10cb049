"""Arguments that name files, and the places they were found to lead to.

Each path of a call is resolved once, by whoever comes first: in a run that is `vibe_jupyter.agent.call_context`. From
there the place goes with the arguments, so that the policy judges, the card shows and the tool opens one and the same.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from pydantic import BaseModel, PrivateAttr

from vibe_jupyter.files.workspace import Located, Workspace
from vibe_jupyter.protocol import LazyModel

NONE_JUDGED: Final[Mapping[str, Located]] = MappingProxyType({})


class PathArguments(LazyModel):
    """The base of the arguments of a call that names files."""

    _places: Mapping[str, Located] | None = PrivateAttr(default=None)

    def settle(
        self, workspace: Workspace, paths: Iterable[str], judged: Mapping[str, Located] = NONE_JUDGED
    ) -> Mapping[str, Located]:
        """The places of all paths that the call names, the same at each call of this.

        Args:
            workspace: resolves them, at the first call.
            paths: all of the call's; they count at the first call alone.
            judged: places that are taken over instead of being resolved again.

        Raises:
            ToolError: one cannot lead anywhere.
        """
        if self._places is None:
            self._places = _resolved(workspace, paths, judged)
        return self._places


def places_of(
    args: BaseModel, workspace: Workspace, paths: Iterable[str], judged: Mapping[str, Located] = NONE_JUDGED
) -> Mapping[str, Located]:
    """The same for arguments of any kind; those that cannot carry places along are resolved at each call of this.

    Raises:
        ToolError: a path cannot lead anywhere.
    """
    if isinstance(args, PathArguments):
        return args.settle(workspace, paths, judged)
    return _resolved(workspace, paths, judged)


def _resolved(workspace: Workspace, paths: Iterable[str], judged: Mapping[str, Located]) -> Mapping[str, Located]:
    return {path: judged.get(path) or workspace.resolve(path) for path in paths}
