"""Pictures that a prompt names with `@`, sent with it: as those that are pasted into a prompt in the page."""

import asyncio
from collections.abc import Iterator, Sequence

from vibe_jupyter.agent.agent import HookContext, PreparedPrompt, RunHooks
from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.images import read_image
from vibe_jupyter.files.workspace import Located, Workspace
from vibe_jupyter.protocol import ImagePart, TextPart


class PromptPictures:
    """The hooks of one run, with pictures before what the others put there."""

    def __init__(self, workspace: Workspace, named: Sequence[Located], others: RunHooks | None) -> None:
        self._workspace = workspace
        self._named = named
        self._others = others

    async def begin(self, hook_context: HookContext) -> PreparedPrompt:
        """See `RunHooks`."""
        prepared = PreparedPrompt() if self._others is None else await self._others.begin(hook_context)
        pictures = await asyncio.to_thread(lambda: tuple(self._parts()))
        return prepared._replace(before=(*pictures, *prepared.before))

    async def end(self) -> None:
        """See `RunHooks`."""
        if self._others is not None:
            await self._others.end()

    def _parts(self) -> Iterator[TextPart | ImagePart]:
        for located in self._named:
            try:
                with self._workspace.open_read(located) as file:
                    found = read_image(file, located.shown)
            except (ToolError, OSError) as error:
                yield TextPart(text=f"@{located.shown} is not sent: {error}")
                continue
            if found is not None:
                yield TextPart(text=f"@{located.shown}: {found.said}")
                yield found.part
