"""What the model is reported before each prompt: the page is asked for the cells, and again when the run is over.

Pictures that the prompt names with `@` are sent with it, as those that are pasted into a prompt in the page.
"""

import asyncio
import concurrent.futures
import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_jupyter.agent.agent import HookContext, PreparedPrompt, RunHooks
from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.app.agents import plan_section
from vibe_jupyter.app.project import CurrentSettings
from vibe_jupyter.app.shell_host import ShellHost
from vibe_jupyter.context.executions import ExecutionLog
from vibe_jupyter.context.mentions import MENTION_LIMIT, Mentions, cell_text, mentioned_cells
from vibe_jupyter.context.situation import SituationReport, Surroundings
from vibe_jupyter.errors import NotebookError, ToolError
from vibe_jupyter.files.images import read_image
from vibe_jupyter.files.workspace import Located, Workspace
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.llm.request import Model
from vibe_jupyter.protocol import ImagePart, Level, TextPart
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.variables.describing import WITH_VALUES, by_schema

if TYPE_CHECKING:
    from vibe_jupyter.app.notebook_access import NotebookAccess
    from vibe_jupyter.notebook.document import Listing

_WHOLE = MENTION_LIMIT - 100
"""Characters of a cell that the report of a mention holds whole, its address included."""
CELLS_WAIT = 0.5
"""Seconds given to a page that is still asked for the cells of the run before."""


class PromptReport:
    """One for a kernel. Main thread only."""

    def __init__(
        self,
        log: ExecutionLog,
        mentions: Mentions,
        engine: Engine,
        host: ShellHost,
        notebook: "NotebookAccess | None",
        folder: Path,
    ) -> None:
        self._log = log
        self._folder = folder
        self._mentions = mentions
        self._engine = engine
        self._host = host
        self._notebook = notebook
        self._report = SituationReport(log)
        self._has_planned = False
        """Whether the agent of the last prompt plans."""
        self._after: concurrent.futures.Future[Listing] | None = None
        """The cells when the last run was over; None where no page shows them."""

    def take(self, *, schema_only: bool) -> None:
        """Tell of variables, cells and files by what the settings say may be sent."""
        self._describing = by_schema() if schema_only else WITH_VALUES
        self._report.describing = self._mentions.describing = self._describing

    def look(self, prompt: str, allowed: frozenset[str]) -> Surroundings:
        """What is known of the notebook before a run begins; may take a moment."""
        notebook = self._notebook
        if notebook is None:
            return Surroundings(
                prompt,
                attended=self._host.allow_stdin,
                has_notebook=False,
                allowed=allowed,
                code_folder=self._code_folder(),
            )
        after, self._after = self._after, None
        if after is not None:
            with contextlib.suppress(NotebookError, ToolError, concurrent.futures.TimeoutError):
                self._report.take_cells(self._told(after.result(CELLS_WAIT)))
        notebook.cells.resume()
        asked = self._engine.submit(notebook.cells.reads.glance())
        self._log.read()  # while the page is asked
        listing = asked.result()
        listing = None if listing is None else self._told(listing)
        is_live = notebook.heard_page and listing is not None
        return Surroundings(
            prompt,
            listing,
            notebook.cells.prompt_cell,
            is_live=is_live,
            attended=(is_live and notebook.is_seen) or self._host.allow_stdin,
            allowed=allowed,
            written=frozenset(notebook.cells.reads.written),
            code_folder=self._code_folder(),
        )

    def _code_folder(self) -> str:
        """Where code runs after a chdir out of the project's folder; empty where it is there."""
        with contextlib.suppress(OSError):
            if not self._folder.samefile("."):
                return os.getcwd()
        return ""

    def sections(self, around: Surroundings, levels: Mapping[str, Level], current: CurrentSettings) -> str:
        """What the model is reported of it, and of what the prompt mentions; empty when there is nothing to tell.

        Looks at the user's objects.

        Args:
            around: of the prompt.
            levels: tool name to level, where the settings name one.
            current: the agent that takes the prompt.
        """
        cells = around.listing.cells if around.listing is not None else ()
        mentioned = self._mentions.section(around.prompt, levels, cells) if "@" in around.prompt else ""
        had_planned, self._has_planned = self._has_planned, current.plans
        plan = plan_section(current) if had_planned or current.plans else ""
        told = (self._report.section(around), mentioned, plan)
        if self._notebook is not None:
            remembered = self._notebook.cells.reads.remembered
            if self._report.shown:
                remembered.show(self._report.shown)
            for cell in mentioned_cells(around.prompt, cells, levels) if "@" in around.prompt else ():
                if len(cell_text(cell, {})) < _WHOLE:
                    remembered.read(cell)
        return "\n".join(filter(None, told))

    def with_pictures(
        self, prompt: str, levels: Mapping[str, Level], others: RunHooks | None, model: Model
    ) -> RunHooks | None:
        """Hooks of a run, and before them the pictures that its prompt names, where the model sees them."""
        named = self._mentions.pictures(prompt, levels) if model.sees_images and "@" in prompt else []
        return PromptPictures(self._mentions.workspace, named, others) if named else others

    async def fresh(
        self, around: Surroundings, levels: Mapping[str, Level], current: CurrentSettings, main_thread: MainThread
    ) -> str:
        """The report of a first prompt, in the midst of a run whose conversation was compacted. On the engine's loop.

        Args:
            around: of the prompt of the run.
            levels: as in `sections`.
            current: as in `sections`.
            main_thread: where the user's objects are.
        """
        listing = None if self._notebook is None else await self._notebook.cells.reads.glance()
        listing = None if listing is None else self._told(listing)

        def look() -> str:
            self.begin_again()
            return self.sections(around._replace(prompt="", listing=listing), levels, current)

        return await main_thread.call(look)

    def remember(self) -> None:
        """A run is over, and the model saw what it did. Looks at the user's objects."""
        if self._notebook is not None and self._notebook.heard_page:
            self._after = self._engine.submit(self._notebook.cells.reads.listing())
        self._report.remember()

    def close(self) -> None:
        """Hear of nothing any more that runs."""
        self._log.close()

    def forget(self) -> None:
        """A new conversation begins."""
        self._has_planned = False
        self.begin_again()

    def begin_again(self) -> None:
        """The next report tells all, as the first one does."""
        self._after = None
        self._report = SituationReport(self._log)
        self._report.describing = self._describing

    def _told(self, listing: "Listing") -> "Listing":
        """The cells as the model may be told of them."""
        if not self._describing.schema_only:
            return listing
        with without_working_folder():
            from vibe_jupyter.notebook.tools.schema_results import schema_listing

        return schema_listing(listing)


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
