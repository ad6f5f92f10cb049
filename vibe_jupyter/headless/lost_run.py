"""Continuation of a notebook run whose kernel died: what its cells keep, and the prompt for the rest of the run.

The conversation's journal has every finished step on disk, so the transcript is made of it. No cell is run again.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import nbformat

from vibe_jupyter.app.project import KernelSettings
from vibe_jupyter.app.saved_sessions import session_store
from vibe_jupyter.config import choose_model
from vibe_jupyter.config.settings import Settings
from vibe_jupyter.errors import ConfigError, JournalError, NotebookError
from vibe_jupyter.headless.document import HeadlessDocument
from vibe_jupyter.headless.notebook_run import CellOutcome, NotebookRun, Say
from vibe_jupyter.notebook.cell_names import cell_names
from vibe_jupyter.notebook.name_steps import Act
from vibe_jupyter.options import MOST_TURNS, Options, parse_line
from vibe_jupyter.protocol import (
    AssistantMessage,
    DurableEvent,
    MessageAdded,
    RunFinished,
    RunStarted,
    ToolFinished,
    ToolStarted,
    Usage,
)
from vibe_jupyter.session.journal import SHORT_ID, read_journal
from vibe_jupyter.ui.run_output import output_metadata
from vibe_jupyter.ui.transcript import Transcript

LOAD: Final = "%load_ext vibe_jupyter"
ERROR_NAME: Final = "KernelDied"
NAMES_SHOWN: Final = 40
"""Names of lost variables that the prompt lists."""
LEAST_PRICE: Final = 0.01  # US dollars; 0 would be no limit
_MAGIC: Final = "%%vibe"


class Allowance(NamedTuple):
    """Turns and US dollars that the limits leave to a run."""

    turns: int
    price: float | None
    """None where there is no limit or no known price."""


class LostRun(NamedTuple):
    """A run of the agent that has no end in its journal."""

    session: str
    """Id of its conversation."""
    started: RunStarted
    events: tuple[DurableEvent, ...]
    """All since its beginning."""

    @property
    def open_step(self) -> str:
        """The call that was running, in words; "" if none was."""
        over = {event.call_id for event in self.events if isinstance(event, ToolFinished)}
        begun = (event for event in reversed(self.events) if isinstance(event, ToolStarted))
        headline = next((event.headline for event in begun if event.call_id not in over), None)
        return "" if headline is None else f"{headline.doing} {headline.target}".strip()

    @property
    def answers(self) -> list[AssistantMessage]:
        """Every answer of the model."""
        messages = (event.message for event in self.events if isinstance(event, MessageAdded))
        return [message for message in messages if isinstance(message, AssistantMessage)]

    def bundle(self, settings: Settings, ending: str, seconds: float) -> dict[str, Any]:
        """Return the transcript up to its last finished step, as a notebook keeps it.

        Args:
            settings: say what is kept of a run.
            ending: error below the steps.
            seconds: time since the run began.
        """
        transcript = Transcript(keep=settings.keep())
        for event in self.events:
            transcript.fold(event)
        turns, usage = len(self.answers), _usage(self.answers)
        transcript.fold(RunFinished(reason="error", turns=turns, seconds=seconds, usage=usage, error=ending))
        return dict(transcript.bundle())


def allowance(
    parts: Sequence[LostRun], given: Options, settings: Settings, environ: Mapping[str, str]
) -> Allowance | None:
    """Return what the limits of a run leave, or None if they leave nothing.

    Args:
        parts: the run, in one part for each kernel that died in it.
        given: options in its cell.
        settings: settings of the kernel.
        environ: variables of the kernel.
    """
    answers = [answer for part in parts for answer in part.answers]
    turns = min(settings.max_turns if given.max_turns is None else given.max_turns, MOST_TURNS) - len(answers)
    price = settings.max_price if given.max_price is None else given.max_price
    cost = None
    with suppress(ConfigError):  # such as a model that a cell has named
        model = choose_model(settings, given.model or parts[0].started.model, environ, keyed=False)
        cost = model.cost(_usage(answers))
    left = None if not price or cost is None else price - cost
    return None if turns < 1 or (left is not None and left <= 0) else Allowance(turns, left)


def is_prompt_cell(source: str) -> bool:
    """Return whether the agent's prompt is all that the cell holds."""
    return source.lstrip().startswith(_MAGIC)


def _usage(answers: Sequence[AssistantMessage]) -> Usage:
    return sum((answer.usage or Usage() for answer in answers), Usage())


class KernelDeaths:
    """Handles kernels that die while a notebook is run."""

    def __init__(
        self, document: HeadlessDocument, run: NotebookRun, place: Path, environ: Mapping[str, str], say: Say
    ) -> None:
        """
        Args:
            document: the notebook.
            run: runs its cells.
            place: path of the notebook.
            environ: variables of the kernel.
            say: tells the user.
        """
        self._document = document
        self._run = run
        self._place = place
        self._environ = environ
        self._say = say
        self.killers: set[str] = set()
        """Ids of the cells, other than prompts, that were running when a kernel died."""
        self._told = ""

    def handle(self, cell: str, outcome: CellOutcome, began: float, timeout: float | None) -> CellOutcome:
        """Keep in the notebook what a dead kernel leaves; go on with a run of the agent that has turns left.

        Args:
            cell: id of the cell that was sent.
            outcome: how it ended.
            began: monotonic time when it was sent.
            timeout: seconds the cell may take; None for no limit.

        Returns:
            The end of the cell.
        """
        parts: list[LostRun] = []
        part_began = began
        while outcome.status == "died":
            now = time.monotonic()
            self._note_death(outcome)
            lost = self._lost_run(now - part_began)
            left = None if timeout is None else timeout - (now - began)
            code = ""
            if lost is not None and (left is None or left > 0):
                parts.append(lost)
                code = self._continuation(cell, parts)
            self._keep_transcript(cell, lost, outcome, now - part_began, goes_on=bool(code))
            if lost is None or not code:
                break
            self._say(f"{outcome.error} It is restarted, and the run goes on; no cell is run again.")
            part_began = time.monotonic()
            outcome = self._restart_for(cell, lost)
            if outcome.status == "ok":
                outcome = self._run.continue_cell(cell, code, timeout=left)
        return outcome

    def _restart_for(self, cell: str, lost: LostRun) -> CellOutcome:
        """Start a new kernel with the conversation in it; the outcome says whether it is there."""
        problem = ""
        try:
            started = self._run.restart(LOAD, f"%vibe resume {lost.session}")
            problem = "" if started.status == "ok" else started.error
        except NotebookError as error:
            problem = str(error)
        shown = next((one for one in self._document.cells if one["id"] == cell), None)
        if problem and shown is not None:
            self._put_error(shown, f"The run could not go on in a new kernel: {problem}")
        return CellOutcome(cell, "error" if problem else "ok", problem)

    def told(self) -> str:
        """Return what the next prompt must say of the latest death, once."""
        told, self._told = self._told, ""
        return told

    def restart(self, *, loads: bool) -> None:
        """Replace the kernel that a cell of the user ended, for the prompt that repairs the notebook.

        Args:
            loads: whether a cell that is still to run loads the extension.

        Raises:
            NotebookError: it does not start.
        """
        self._run.restart(*(() if loads else (LOAD,)))

    def _note_death(self, outcome: CellOutcome) -> None:
        """Give each cell that was running an error output, but for prompts, whose transcript says it."""
        ran = [cell for cell in self._document.cells if cell["id"] in self._run.died_in]
        killers = [cell for cell in ran if not is_prompt_cell(str(cell["source"]))]
        self.killers.update(str(cell["id"]) for cell in killers)
        for cell in killers:
            step = "All variables are gone. Change the cell, then run the notebook again."
            self._put_error(cell, f"{outcome.error} {step}")
        names = ", ".join(self._lost_names()) or "none"
        which = ", ".join(f"#{self._document.order.index(str(cell['id'])) + 1}" for cell in killers)
        self._told = (
            f"{outcome.error} {f'Cell {which} was running. ' if which else ''}The kernel was restarted and is empty. "
            f"These variables of cells are gone: {names}; so is all that your own code made. "
            "No cell was run again: run those that you need. "
            "Do not repeat unchanged what was running."
        )

    def _lost_names(self) -> list[str]:
        """Names that cells bound in the dead kernel, as far as their code says."""
        ran = [
            str(cell["source"])
            for cell in self._document.cells
            if cell["cell_type"] == "code" and cell["execution_count"] and cell["id"] not in self.killers
        ]
        bound = {
            step.name: None
            for source in ran
            for step in cell_names(source).steps
            if step.act in (Act.BIND, Act.ALIAS, Act.CHANGE)
        }
        names = list(bound)
        return names if len(names) <= NAMES_SHOWN else [*names[:NAMES_SHOWN], f"and {len(names) - NAMES_SHOWN} more"]

    def _lost_run(self, seconds: float) -> LostRun | None:
        """The run of the notebook's conversation that began within so many seconds and has no end."""
        settings = self._settings()
        named = self._document.conversation
        if settings is None or not named:
            return None
        with suppress(JournalError, OSError):
            store = session_store(settings, self._environ)
            journal = next((store.journal_of(one) for one in store.sessions() if one.id == named), None)
            if journal is None or journal.stat().st_mtime < time.time() - seconds:
                return None
            events = read_journal(journal).events
            begins = [place for place, event in enumerate(events) if isinstance(event, RunStarted)]
            since = events[begins[-1] :] if begins else ()
            if since and isinstance(since[0], RunStarted) and not any(isinstance(one, RunFinished) for one in since):
                return LostRun(named, since[0], tuple(since))
        return None

    def _continuation(self, cell: str, parts: Sequence[LostRun]) -> str:
        """Return the prompt that goes on with the run of a `%%vibe` cell; "" if it may not go on."""
        source, started = str(self._document.cell(cell)["source"]).lstrip(), parts[0].started
        settings = self._settings(started.agent)
        if not is_prompt_cell(source) or settings is None:
            return ""
        given, _ = parse_line(source.removeprefix(_MAGIC).partition("\n")[0])
        left = allowance(parts, given, settings, self._environ)
        if left is None:
            return ""
        options = [f"--max-turns={left.turns}", f'--agent="{started.agent}"']
        if left.price is not None:
            options.append(f"--max-price={max(left.price, LEAST_PRICE):.4f}")
        if given.model is not None:
            options.append(f'--model="{given.model}"')
        if given.allowed:
            options.append(f"--yes={','.join(sorted(given.allowed))}")
        step = parts[-1].open_step
        at = f" The open call was: {step}." if step else ""
        return f"{_MAGIC} {' '.join(options)}\n{self.told()}{at} Go on with the request above."

    def _keep_transcript(
        self, cell: str, lost: LostRun | None, outcome: CellOutcome, seconds: float, *, goes_on: bool
    ) -> None:
        shown = next((one for one in self._document.cells if one["id"] == cell), None)
        if shown is None or (lost is None and cell in self.killers):
            return
        settings = self._settings()
        if lost is None or settings is None:
            self._put_error(shown, f"{outcome.error} Run the notebook again; the conversation was not saved.")
            return
        next_step = "The run goes on below, in a new kernel."
        if not goes_on:
            next_step = f"To go on: %vibe resume {lost.session[:SHORT_ID]}, then a prompt."
        data = lost.bundle(settings, f"{outcome.error} {next_step}", seconds)
        metadata = output_metadata(None if goes_on else "error", "")
        made: Any = nbformat.v4.new_output("display_data", data=data, metadata=metadata)  # pyright: ignore
        shown["outputs"].append(made)

    def _put_error(self, cell: dict[str, Any], text: str) -> None:
        made: Any = nbformat.v4.new_output("error", ename=ERROR_NAME, evalue=text, traceback=[text])  # pyright: ignore
        cell["outputs"].append(made)

    def _settings(self, agent: str | None = None) -> Settings | None:
        with suppress(ConfigError):
            return KernelSettings(self._place.absolute().parent, self._environ).current(agent).reading.settings
        return None
