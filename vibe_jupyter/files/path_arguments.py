"""Tool arguments with paths, and the locations these were resolved to.

Each path of a call is resolved once, at first use, which during a run is `vibe_jupyter.agent.call_context`. The
location then travels with the arguments, so that the policy, the card and the tool all refer to the same file.
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
        """Resolve all paths of the call. Further calls return the same locations.

        Args:
            workspace: Resolves the paths on the first call.
            paths: All paths of the call. Ignored after the first call.
            judged: Locations to reuse instead of resolving their paths again.

        Raises:
            ToolError: A path can't lead anywhere.
        """
        if self._places is None:
            self._places = _resolved(workspace, paths, judged)
        return self._places


def places_of(
    args: BaseModel, workspace: Workspace, paths: Iterable[str], judged: Mapping[str, Located] = NONE_JUDGED
) -> Mapping[str, Located]:
    """Resolve paths like `PathArguments.settle`, for arguments of any kind. Others are resolved on each call.

    Raises:
        ToolError: A path can't lead anywhere.
    """
    if isinstance(args, PathArguments):
        return args.settle(workspace, paths, judged)
    return _resolved(workspace, paths, judged)


def _resolved(workspace: Workspace, paths: Iterable[str], judged: Mapping[str, Located]) -> Mapping[str, Located]:
    return {path: judged.get(path) or workspace.resolve(path) for path in paths}
