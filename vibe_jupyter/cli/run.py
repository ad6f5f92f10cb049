"""`vibe-jupyter run`: every code cell in its order, then the file."""

import argparse
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from vibe_jupyter.cli.ends import interrupt_when_asked_to_end
from vibe_jupyter.cli.exit_codes import AGENT_FAILED, CELL_FAILED, DONE, EXIT_CODES, INTERRUPTED, exit_code
from vibe_jupyter.cli.run_options import add_run_options, parse_seconds
from vibe_jupyter.errors import ConfigError, RunFailed
from vibe_jupyter.headless import CellOutcome, NotebookRun
from vibe_jupyter.headless.document import HeadlessDocument
from vibe_jupyter.headless.file import NotebookFile
from vibe_jupyter.headless.lost_run import LOAD, KernelDeaths, is_prompt_cell
from vibe_jupyter.headless.notebook_run import KernelProcess
from vibe_jupyter.installation import PACKAGE, pip_install
from vibe_jupyter.notebook.cell_names import gives_prompt
from vibe_jupyter.notebook.document import cell_tags, may_raise
from vibe_jupyter.options import TOUR, parse_price
from vibe_jupyter.protocol import METADATA_KEY, SKIP_TAG
from vibe_jupyter.tools.contract import lost_words

LABEL_WIDTH: Final = 60
"""Characters of a cell's first line in the list of what ran."""
_LOADED = re.compile(r"^\s*%(re)?load_ext\s+vibe_jupyter\b", re.MULTILINE)
_SETTINGS: Final = MappingProxyType(
    {
        "agent": "VIBE_DEFAULT_AGENT",
        "model": "VIBE_ACTIVE_MODEL",
        "max_turns": "VIBE_MAX_TURNS",
        "max_price": "VIBE_MAX_PRICE",
    }
)
"""Options of the command line, and the variables that set the same in the kernel."""
_TOOLS = re.compile(r"\w+(,\w+)*|")
_GOOD_ENDS = (None, "stop", "interrupted")
"""How a run of the agent may end, as far as the exit code goes; None where no agent ran."""


@dataclass(frozen=True)
class RunOptions:
    """The command line, parsed."""

    notebook: Path
    prompt: str | None = None
    """None runs the notebook as it is."""
    allowed: str = ""
    """Tools with commas between them."""
    save_as: Path | None = None
    """None writes the notebook back."""
    timeout: float | None = None
    """Seconds one cell may take; None for no limit."""
    kernel: str | None = None
    """None for the one the notebook names."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables that set something for the prompts that do not set it themselves."""
    stop_on_error: bool = False
    """With a prompt: end at a cell that fails instead of giving it to the agent."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words after ``vibe-jupyter run``."""
    parser.epilog = EXIT_CODES
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument(
        "-p",
        "--prompt",
        help="a prompt for the agent, run in a new %%%%vibe cell at the end, or once a cell has failed; "
        "the exit code is then 0 if the notebook runs at the end",
    )
    parser.add_argument(
        "--stop-on-error", action="store_true", help="with -p: stop at a cell that fails, and ask the agent nothing"
    )
    add_run_options(parser, tools="run_code,edit_cell")
    parser.add_argument(
        "--save-as", type=Path, metavar="FILE", help="write the result there and leave NOTEBOOK as it is"
    )
    parser.add_argument(
        "--timeout", type=parse_seconds, metavar="S", help="seconds one cell may take (default: no limit)"
    )
    parser.add_argument("--kernel", metavar="NAME", help="kernel to run it with (default: the notebook's own)")
    parser.set_defaults(command=_run_chosen)


def _run_chosen(chosen: argparse.Namespace) -> int:
    interrupt_when_asked_to_end()
    return run_notebook(
        RunOptions(
            notebook=chosen.notebook,
            prompt=chosen.prompt,
            allowed=chosen.yes,
            save_as=chosen.save_as,
            timeout=chosen.timeout,
            kernel=chosen.kernel,
            settings=_chosen_settings(chosen),
            stop_on_error=chosen.stop_on_error,
        )
    )


def _chosen_settings(chosen: argparse.Namespace) -> dict[str, str]:
    parse_price(chosen.max_price)
    given = {name: getattr(chosen, name) for name in _SETTINGS}
    return {_SETTINGS[name]: str(value) for name, value in given.items() if value is not None}


def run_notebook(options: RunOptions) -> int:
    """Run it and save it; returns the exit code.

    Raises:
        ConfigError: something is wrong before anything ran.
        NotebookError: the kernel does not start, or the result could not be saved.
    """
    if not _TOOLS.fullmatch(options.allowed):
        raise ConfigError(f"--yes requires names of tools, separated by commas, not {options.allowed!r}.")
    file = NotebookFile(options.notebook)
    target = options.save_as or options.notebook
    file.check_writable(target)
    _check_choices(options)
    document = HeadlessDocument(file.notebook)
    name = options.kernel or file.kernel_name
    added = 0 if options.prompt is None else 1 if _loads_us(document) else 2
    say = _Progress(len(_code_cells(document)) + added)
    for repaired in file.repairs:
        say.line(f"Repaired: {repaired}.")
    try:
        kernel = KernelProcess(name, file.path, environment=options.settings)
        try:
            code = _run_in(kernel, name, document, options, say)
        finally:
            kernel.close()
    except KeyboardInterrupt:
        say.line("Interrupted.")
        code = INTERRUPTED
    finally:
        if document.dirty:
            file.save(target)
    say.line(f"Saved as {target}.")
    return code


def _check_kernel(kernel: KernelProcess, name: str) -> None:
    """Find out before the first cell runs that the kernel's environment has this package.

    Raises:
        ConfigError: it has not.
    """
    found = kernel.evaluate("__import__('importlib.util').util.find_spec('vibe_jupyter') is not None")
    if found == "False":
        python = kernel.evaluate("__import__('sys').executable").strip("'\"")
        raise ConfigError(
            f"The kernel {name!r} runs in an environment without {PACKAGE}, which its %%vibe cells need. "
            f"Install it there: {pip_install(f'{python} -m pip')}"
        )


def _check_choices(options: RunOptions) -> None:
    """That the model and the agent that the command line names are there: the first prompt may come after hours.

    Raises:
        ConfigError: one is not.
    """
    model, agent = (options.settings.get(_SETTINGS[one]) for one in ("model", "agent"))
    if model is None and agent is None:
        return
    from vibe_jupyter import config
    from vibe_jupyter.app.project import KernelSettings

    environ = {**os.environ, **options.settings}
    settings = KernelSettings(options.notebook.absolute().parent, environ).current(agent).reading.settings
    if model not in (None, TOUR):
        config.choose_model(settings, model, environ, keyed=False)  # a cell may set the key


def _run_in(kernel: KernelProcess, name: str, document: HeadlessDocument, options: RunOptions, say: "_Progress") -> int:
    """Run the cells, and the prompt if there is one; returns the exit code."""
    originals = {cell["id"]: cell["source"] for cell in _code_cells(document)}
    if options.prompt is not None or any(map(gives_prompt, originals.values())):
        _check_kernel(kernel, name)
    if options.prompt is not None:
        if not _loads_us(document):
            document.append("code", LOAD)
        document.append("code", f"%%vibe\n{options.prompt}")
    notebook_run = NotebookRun(
        document, kernel, path=options.notebook.resolve().name, say=say.note, allowed=options.allowed
    )
    environ = {**os.environ, **options.settings}
    deaths = KernelDeaths(document, notebook_run, options.notebook, environ, say.note)
    cells = _CellsInOrder(document, notebook_run, deaths, say, options.timeout)
    if options.prompt is None or options.stop_on_error:
        return cells.run(_ids(document))
    return cells.run_and_repair(originals)


def _loads_us(document: HeadlessDocument) -> bool:
    return any(_LOADED.search(cell["source"]) for cell in _code_cells(document))


class _CellsInOrder:
    """Runs code cells one after the other, as Run All does; the agent runs its own."""

    def __init__(
        self,
        document: HeadlessDocument,
        notebook_run: NotebookRun,
        deaths: KernelDeaths,
        say: "_Progress",
        timeout: float | None,
    ) -> None:
        self._document = document
        self._notebook_run = notebook_run
        self._deaths = deaths
        self._say = say
        self._timeout = timeout

    def run(self, ids: Sequence[str]) -> int:
        """Run these cells up to the first that fails; returns the exit code."""
        code = DONE
        for cell_id in ids:
            cell = next((cell for cell in self._document.cells if cell["id"] == cell_id), None)
            if cell is None or not cell["source"].strip():
                continue
            self._say.begin(cell["source"])
            if SKIP_TAG in cell_tags(cell):
                self._say.note(f"skipped, as its tag {SKIP_TAG} says")
                continue
            outcome = self._run_cell(cell_id, cell["source"])
            meant = outcome.status == "error" and may_raise(cell)
            self._say.end(outcome, cell, meant=meant)
            if outcome.status != "ok" and not meant:
                return _agent_exit(cell) if _agent_failed(outcome, cell) else CELL_FAILED
            if not _agent_came_to_its_end(cell):
                code = _agent_exit(cell)
        return code

    def _run_cell(self, cell_id: str, source: str) -> CellOutcome:
        """Run one cell; if its kernel dies, keep what there is and go on where the agent has turns left."""
        began = time.monotonic()
        told = self._deaths.told() if is_prompt_cell(source) else ""
        added = f"\n\n{told}" if told else ""
        outcome = self._notebook_run.run_cell(cell_id, timeout=self._timeout, added=added)
        return self._deaths.handle(cell_id, outcome, began, self._timeout)

    def run_and_repair(self, originals: Mapping[str, str]) -> int:
        """Run the cells; a failure is left to the prompt, which comes last. Returns whether all run in the end.

        Args:
            originals: the user's code cells by their ids, as they were in the file.
        """
        prompt = [cell_id for cell_id in _ids(self._document) if cell_id not in originals]
        first = self.run(list(originals))
        if not self._notebook_run.is_alive:
            self._say.note("The kernel is restarted for the prompt; no cell is run again.")
            self._deaths.restart(loads=len(prompt) > 1)
        if (code := self.run(prompt)) != DONE:
            return code
        return self._run_rest(originals) if first == CELL_FAILED else first

    def _run_rest(self, originals: Mapping[str, str]) -> int:
        """Go on with the cells that the failure kept from running.

        What the agent wrote and did not run itself isn't run here: nobody has allowed it.
        """
        for cell in _code_cells(self._document):
            if gives_prompt(cell["source"]) or not cell["source"].strip() or self._has_run(cell):
                continue
            if cell["id"] in self._deaths.killers and originals.get(cell["id"]) == cell["source"]:
                self._say.line(f"Not run again: the kernel died in this cell: {_first_line(cell['source'])}")
                return CELL_FAILED
            if originals.get(cell["id"]) != cell["source"]:
                self._say.line(f"Not run: the agent changed a cell and did not run it: {_first_line(cell['source'])}")
                return CELL_FAILED
            if (code := self.run([cell["id"]])) != DONE:
                return code
        return DONE

    def _has_run(self, cell: dict[str, Any]) -> bool:
        """True if the cell ran as it is now, to its end or to an error that its tag allows."""
        if cell["execution_count"] is None or self._document.edited_since_run(cell):
            return False
        return may_raise(cell) or all(output["output_type"] != "error" for output in cell["outputs"])


def _agent_exit(cell: dict[str, Any]) -> int:
    """Of a cell whose agent did not finish."""
    return next((exit_code(end) for end in _ends(cell) if end not in _GOOD_ENDS), AGENT_FAILED)


def _agent_failed(outcome: CellOutcome, cell: dict[str, Any]) -> bool:
    """Whether the cell ended as that of a failed run does."""
    died_in_prompt = outcome.status == "died" and is_prompt_cell(cell["source"])
    return died_in_prompt or outcome.error.startswith(f"{RunFailed.__name__}:")


def _ids(document: HeadlessDocument) -> list[str]:
    return [cell["id"] for cell in _code_cells(document)]


def _code_cells(document: HeadlessDocument) -> list[dict[str, Any]]:
    return [cell for cell in document.cells if cell["cell_type"] == "code"]


def _ends(cell: dict[str, Any]) -> list[Any]:
    """How the runs in a cell ended; None for an output that is none."""
    return [output.get("metadata", {}).get(METADATA_KEY, {}).get("reason") for output in cell["outputs"]]


def _agent_came_to_its_end(cell: dict[str, Any]) -> bool:
    """What a run of the agent leaves says how it ended; where it could not begin, there are only words on stderr."""
    ends = _ends(cell)
    if not gives_prompt(cell["source"]) or any(ends):
        return all(end in _GOOD_ENDS for end in ends)
    return not any(map(_is_refusal, cell["outputs"]))


def _said_by_agent(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """All that a `%%vibe` cell shows; of other code what runs in it show, and why one could not begin."""
    if is_prompt_cell(cell["source"]):
        return cell["outputs"]
    return [one for one in cell["outputs"] if METADATA_KEY in one.get("metadata", {}) or _is_refusal(one)]


def _is_refusal(output: dict[str, Any]) -> bool:
    return output.get("name") == "stderr" and output["text"].startswith("vibe:")


def _first_line(source: str) -> str:
    lines = source.strip().splitlines()
    first = " ".join(lines[:2]) if source.startswith("%%") else lines[0]
    return first if len(first) <= LABEL_WIDTH else f"{first[: LABEL_WIDTH - 1]}…"


class _Progress:
    """One line for each cell, and what the agent said."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._number = 0
        self._named: set[str] = set()
        """Variables that undo would not restore, of which that was said."""
        self._began = 0.0

    def line(self, text: str) -> None:
        print(text, flush=True)

    def begin(self, source: str) -> None:
        self._number += 1
        self._began = time.monotonic()
        self._total = max(self._total, self._number)
        self.line(f"[{self._number}/{self._total}] {_first_line(source)}")

    def note(self, text: str) -> None:
        self.line(f"      {text}")

    def _warn_of_undo(self, cell: dict[str, Any]) -> None:
        said = (output.get("metadata", {}).get(METADATA_KEY, {}).get("not_undone", []) for output in cell["outputs"])
        names = [name for names in said for name in names if name not in self._named]
        self._named.update(names)
        if names:
            print(f"      {lost_words(names)}", file=sys.stderr, flush=True)

    def end(self, outcome: CellOutcome, cell: dict[str, Any], *, meant: bool) -> None:
        for output in _said_by_agent(cell):
            text = output.get("data", {}).get("text/plain", "") or output.get("text", "")
            self.line("\n".join(f"      {row}" for row in text.rstrip().splitlines()))
        self._warn_of_undo(cell)
        seconds = time.monotonic() - self._began
        if outcome.status == "ok" or (outcome.status != "died" and _agent_failed(outcome, cell)):
            ended = outcome.status == "ok" and _agent_came_to_its_end(cell)
            words = "ok" if ended else "the agent did not finish"
            self.note(f"{words}, {seconds:.1f} s")
        elif meant:
            self.note(f"{outcome.error}, as its tag raises-exception says, {seconds:.1f} s")
        else:
            print(f"      {outcome.status}: {outcome.error} ({seconds:.1f} s)", file=sys.stderr, flush=True)
