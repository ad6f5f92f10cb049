"""Recovery of a run whose kernel died: keep the cell's output, and continue the run with another prompt.

The conversation's journal has every finished step on disk, so the transcript is rebuilt from it. No cell is run again.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple

import nbformat

from vibe_jupyter.agent.delegation import SUBAGENTS
from vibe_jupyter.app.project import KernelSettings
from vibe_jupyter.app.run_rules import Allowance, allowed_by
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
from vibe_jupyter.session.journal import FILE_NAME, SHORT_ID, read_journal
from vibe_jupyter.ui.run_output import output_metadata
from vibe_jupyter.ui.transcript import Transcript

LOAD: Final = "%load_ext vibe_jupyter"
ERROR_NAME: Final = "KernelDied"
NAMES_SHOWN: Final = 40  # lost variables listed in the prompt
LEAST_PRICE: Final = 0.01  # US dollars; 0 would mean no limit
_MAGIC: Final = "%%vibe"


class LostRun(NamedTuple):
    """A run of the agent whose journal has no end."""

    session: str  # conversation id
    started: RunStarted
    events: tuple[DurableEvent, ...]  # all events since the start of the run
    subagents: tuple["LostRun", ...] = ()  # runs of its sub-agents, finished or not

    @property
    def open_step(self) -> str:
        """Description of the call that was running, or ""."""
        over = {event.call_id for event in self.events if isinstance(event, ToolFinished)}
        begun = (event for event in reversed(self.events) if isinstance(event, ToolStarted))
        headline = next((event.headline for event in begun if event.call_id not in over), None)
        return "" if headline is None else f"{headline.doing} {headline.target}".strip()

    @property
    def answers(self) -> list[AssistantMessage]:
        """All answers of the model."""
        messages = (event.message for event in self.events if isinstance(event, MessageAdded))
        return [message for message in messages if isinstance(message, AssistantMessage)]

    def bundle(self, settings: Settings, ending: str, seconds: float) -> dict[str, Any]:
        """Return the transcript up to the last finished step, as saved in a notebook.

        Args:
            settings: Transcript settings.
            ending: Error shown below the steps.
            seconds: Time since the run began.
        """
        transcript = Transcript(keep=settings.keep())
        for event in self.events:
            transcript.fold(event)
        turns, usage = len(self.answers), _usage(self.answers)
        transcript.fold(RunFinished(reason="error", turns=turns, seconds=seconds, usage=usage, error=ending))
        return dict(transcript.bundle())


def remaining(
    parts: Sequence[LostRun], given: Options, settings: Settings, environ: Mapping[str, str], seconds: float
) -> Allowance | None:
    """Return what remains of a run's limits, or None if one is used up.

    Args:
        parts: The run, divided at each kernel death.
        given: Options in its cell.
        settings: Settings of the kernel.
        environ: Environment variables of the kernel.
        seconds: Time since the run began.
    """
    turns, tokens, cost = sum(len(part.answers) for part in parts), 0, 0.0
    for run in (run for part in parts for run in (part, *part.subagents)):
        usage = _usage(run.answers)
        tokens += usage.prompt_tokens + usage.completion_tokens
        with suppress(ConfigError):  # for example for a model named in a cell
            named = given.model if run.session == parts[0].session else None
            model = choose_model(settings, named or run.started.model, environ, keyed=False)
            cost += model.cost(usage) or 0.0
    allowed = allowed_by(settings, given)
    used = Allowance(turns, cost, tokens, seconds)
    left = Allowance(
        turns=min(allowed.turns, MOST_TURNS) - used.turns,
        price=allowed.price and allowed.price - used.price,
        tokens=allowed.tokens and allowed.tokens - used.tokens,
        seconds=allowed.seconds and allowed.seconds - used.seconds,
    )
    ended = left.turns < 1 or any(have and rest <= 0 for have, rest in zip(allowed[1:], left[1:], strict=True))
    return None if ended else left


def is_prompt_cell(source: str) -> bool:
    """Return whether the cell consists of a prompt to the agent."""
    return source.lstrip().startswith(_MAGIC)


def _usage(answers: Sequence[AssistantMessage]) -> Usage:
    return sum((answer.usage or Usage() for answer in answers), Usage())


def _subagent_runs(folder: Path, began: float) -> Iterator[LostRun]:
    """Yield the runs of sub-agents that were active after a time, from their journals beside the conversation's."""
    for journal in folder.glob(f"{SUBAGENTS}/*/{FILE_NAME}"):
        with suppress(JournalError, OSError):
            events = read_journal(journal).events if journal.stat().st_mtime >= began else ()
            if events and isinstance(events[0], RunStarted):
                yield LostRun(journal.parent.name, events[0], events)


class KernelDeaths:
    """Handler for kernels that die during a notebook run."""

    def __init__(
        self, document: HeadlessDocument, run: NotebookRun, place: Path, environ: Mapping[str, str], say: Say
    ) -> None:
        """
        Args:
            document: The notebook.
            run: Runs its cells.
            place: Path of the notebook.
            environ: Environment variables of the kernel.
            say: Prints a message for the user.
        """
        self._document = document
        self._run = run
        self._place = place
        self._environ = environ
        self._say = say
        self.killers: set[str] = set()  # ids of cells, except prompts, that were running when a kernel died
        self._told = ""

    def handle(self, cell: str, outcome: CellOutcome, began: float, timeout: float | None) -> CellOutcome:
        """Record the death in the notebook, and continue a run of the agent that has turns left.

        Args:
            cell: Id of the cell that was sent.
            outcome: Its outcome.
            began: Monotonic time when it was sent.
            timeout: Time limit of the cell in seconds; None for none.

        Returns:
            The final outcome of the cell.
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
                code = self._continuation(cell, parts, now - began)
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
        """Start a new kernel and resume the conversation in it. The outcome says whether that succeeded."""
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
        """Return what the next prompt must report about the latest death, and clear it."""
        told, self._told = self._told, ""
        return told

    def restart(self, *, loads: bool) -> None:
        """Replace a kernel that a user's cell killed, for the prompt that repairs the notebook.

        Args:
            loads: Whether a later cell loads the extension.

        Raises:
            NotebookError: The kernel doesn't start.
        """
        self._run.restart(*(() if loads else (LOAD,)))

    def _note_death(self, outcome: CellOutcome) -> None:
        """Add an error output to the cells that were running, except prompts, whose transcript reports it."""
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
        """Return names that cells bound in the dead kernel, according to their code."""
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
        """Return the unfinished run of the notebook's conversation that was active in the last `seconds`, if any."""
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
                began = time.time() - seconds
                return LostRun(named, since[0], tuple(since), tuple(_subagent_runs(journal.parent, began)))
        return None

    def _continuation(self, cell: str, parts: Sequence[LostRun], seconds: float) -> str:
        """Return the prompt that continues the run of a `%%vibe` cell, or "" if it can't continue."""
        source, started = str(self._document.cell(cell)["source"]).lstrip(), parts[0].started
        settings = self._settings(started.agent)
        if not is_prompt_cell(source) or settings is None:
            return ""
        given, _ = parse_line(source.removeprefix(_MAGIC).partition("\n")[0])
        left = remaining(parts, given, settings, self._environ, seconds)
        if left is None:
            return ""
        options = [
            f"--max-turns={left.turns}",
            f"--max-price={left.price and max(left.price, LEAST_PRICE):.4f}",
            f"--max-tokens={left.tokens}",
            f"--max-seconds={ceil(left.seconds)}",
            f'--agent="{started.agent}"',
        ]
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
