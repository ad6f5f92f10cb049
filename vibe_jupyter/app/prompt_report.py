"""Context sent with each prompt: changes since the last prompt, mentions, and pictures.

The page is asked for its cells before a run, and again afterwards. Pictures that the prompt mentions with `@` are sent
like those pasted into the prompt in the page.
"""

import asyncio
import concurrent.futures
import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from vibe_jupyter.agent.agent import HookContext, PreparedPrompt, RunHooks
from vibe_jupyter.app.agents import plan_section
from vibe_jupyter.app.project import CurrentSettings
from vibe_jupyter.app.shell_host import Kernel
from vibe_jupyter.context.executions import ExecutionLog
from vibe_jupyter.context.mentions import MENTION_LIMIT, MENTIONS, Mentions, cell_text, mentioned_cells
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
    from vibe_jupyter.notebook.document import Listing

_WHOLE = MENTION_LIMIT - 100  # characters; shorter cells are included whole, with their address, when mentioned
CELLS_WAIT = 0.5  # seconds to wait for the cells requested after the previous run
SENT_WAIT: Final = 1.0  # maximum seconds to wait for that request to be sent


class PromptReport:
    """Context reports of one kernel. Main thread only."""

    def __init__(self, kernel: Kernel, log: ExecutionLog) -> None:
        self._log = log
        self._folder = kernel.folder
        self._engine = kernel.engine
        self._host = kernel.host
        self._notebook = kernel.notebook
        self._mentions = Mentions(kernel.host.namespace, kernel.workspace)
        self._report = SituationReport(log)
        self._has_planned = False  # True if the last prompt's agent writes plans
        # The cells after the last run; None if no page shows them.
        self._after: concurrent.futures.Future[Listing] | None = None

    def take(self, *, schema_only: bool) -> None:
        """Apply the privacy setting to the descriptions of variables, cells and files."""
        self._describing = by_schema() if schema_only else WITH_VALUES
        self._report.describing = self._mentions.describing = self._describing

    def look(self, prompt: str, allowed: frozenset[str]) -> Surroundings:
        """Collect the state of the notebook before a run. May block briefly."""
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
        self._log.read()  # while the page responds
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
        """Return the working folder if the user's code has left the project folder, else ""."""
        with contextlib.suppress(OSError):
            if not self._folder.samefile("."):
                return os.getcwd()
        return ""

    def sections(self, around: Surroundings, levels: Mapping[str, Level], current: CurrentSettings) -> str:
        """Return the context sections for a prompt, or "" if nothing is new. Reads the user's objects.

        Args:
            around: State of the notebook for the prompt.
            levels: Permission levels by tool, as far as the settings set any.
            current: Settings of the agent that gets the prompt.
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
            described = mentioned_cells(around.prompt, cells, levels)[:MENTIONS] if "@" in around.prompt else []
            for cell in described:
                if len(cell_text(cell, {})) < _WHOLE:
                    remembered.read(cell)
        return "\n".join(filter(None, told))

    def with_pictures(
        self, prompt: str, levels: Mapping[str, Level], others: RunHooks | None, model: Model
    ) -> RunHooks | None:
        """Add the pictures mentioned in the prompt to the run's hooks, if the model accepts images."""
        named = self._mentions.pictures(prompt, levels) if model.sees_images and "@" in prompt else []
        return PromptPictures(self._mentions.workspace, named, others) if named else others

    async def fresh(
        self, around: Surroundings, levels: Mapping[str, Level], current: CurrentSettings, main_thread: MainThread
    ) -> str:
        """Return the context of a first prompt, for a conversation compacted during a run. Engine loop only.

        Args:
            around: State of the notebook for the run's prompt.
            levels: As in `sections`.
            current: As in `sections`.
            main_thread: Thread that owns the user's objects.
        """
        listing = None if self._notebook is None else await self._notebook.cells.reads.glance()
        listing = None if listing is None else self._told(listing)

        def look() -> str:
            self.begin_again()
            return self.sections(around._replace(prompt="", listing=listing), levels, current)

        return await main_thread.call(look)

    def remember(self) -> None:
        """Take the state after a run, which the model has seen, as the new baseline. Reads the user's objects."""
        if self._notebook is not None and self._notebook.heard_page:
            self._after = self._engine.submit(self._notebook.cells.reads.listing())
        self._report.remember()
        if self._after is not None:
            # The page must get the request before the cell ends, or the user's next edit would count as known. The
            # page is known by then, so the request is sent before anything that is submitted later runs.
            with contextlib.suppress(concurrent.futures.TimeoutError):
                self._engine.submit(asyncio.sleep(0)).result(SENT_WAIT)

    def close(self) -> None:
        """Stop recording executions."""
        self._log.close()

    def forget(self) -> None:
        """Reset for a new conversation."""
        self._has_planned = False
        self.begin_again()

    def begin_again(self) -> None:
        """Make the next report complete, like that of a first prompt."""
        self._after = None
        self._report = SituationReport(self._log)
        self._report.describing = self._describing

    def _told(self, listing: "Listing") -> "Listing":
        """Return the cells in the form that the privacy setting allows."""
        if not self._describing.schema_only:
            return listing
        with without_working_folder():
            from vibe_jupyter.notebook.tools.schema_results import schema_listing

        return schema_listing(listing)


class PromptPictures:
    """Run hooks that insert pictures before the parts added by other hooks."""

    def __init__(self, workspace: Workspace, named: Sequence[Located], others: RunHooks | None) -> None:
        self._workspace = workspace
        self._named = named
        self._others = others

    async def begin(self, hook_context: HookContext) -> PreparedPrompt:
        prepared = PreparedPrompt() if self._others is None else await self._others.begin(hook_context)
        pictures = await asyncio.to_thread(lambda: tuple(self._parts()))
        return prepared._replace(before=(*pictures, *prepared.before))

    async def end(self) -> None:
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
