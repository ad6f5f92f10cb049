"""`vibe-jupyter run`: execute all code cells in order and save the notebook."""

import argparse
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, cast

from vibe_jupyter.cli.ends import interrupt_when_asked_to_end
from vibe_jupyter.cli.exit_codes import AGENT_FAILED, CELL_FAILED, DONE, EXIT_CODES, INTERRUPTED, exit_code
from vibe_jupyter.cli.run_options import add_run_options, chosen_options, parse_seconds, read_prompt
from vibe_jupyter.cli.terminal import print_readable
from vibe_jupyter.errors import ConfigError, RunFailed
from vibe_jupyter.headless import CellOutcome, NotebookRun
from vibe_jupyter.headless.document import HeadlessDocument
from vibe_jupyter.headless.file import NotebookFile
from vibe_jupyter.headless.lost_run import LOAD, KernelDeaths, is_prompt_cell
from vibe_jupyter.headless.notebook_run import KernelProcess
from vibe_jupyter.installation import PACKAGE, pip_install
from vibe_jupyter.notebook.cell_names import gives_prompt
from vibe_jupyter.notebook.document import cell_tags, may_raise
from vibe_jupyter.options import TOUR
from vibe_jupyter.protocol import METADATA_KEY, SKIP_TAG
from vibe_jupyter.tools.contract import lost_words

LABEL_WIDTH: Final = 60  # characters of a cell's first line in the progress output
_WITH_PROMPT: Final = 'vibe-jupyter run NOTEBOOK -p "fix the failing cell"'
_LOADED = re.compile(r"^\s*%(re)?load_ext\s+vibe_jupyter\b", re.MULTILINE)
# Options, and the environment variables with the same effect in the kernel.
_SETTINGS: Final = MappingProxyType(
    {
        "agent": "VIBE_DEFAULT_AGENT",
        "model": "VIBE_ACTIVE_MODEL",
        "max_turns": "VIBE_MAX_TURNS",
        "max_price": "VIBE_MAX_PRICE",
        "max_tokens": "VIBE_MAX_TOKENS",
        "max_seconds": "VIBE_MAX_SECONDS",
    }
)
_TOOLS = re.compile(r"\w+(,\w+)*|")
# Finish reasons of a run that don't fail the command; None for an output that isn't a run's.
_GOOD_ENDS = (None, "stop", "interrupted")


@dataclass(frozen=True)
class RunOptions:
    """The parsed command line."""

    notebook: Path
    prompt: str | None = None  # None runs the notebook as it is
    allowed: str = ""  # comma-separated tool names
    save_as: Path | None = None  # None overwrites the notebook
    timeout: float | None = None  # seconds one cell may take; None for no limit
    kernel: str | None = None  # None for the notebook's kernel
    # Environment variables with defaults for prompts that don't set these options.
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    stop_on_error: bool = False  # with a prompt: stop at a failing cell instead of passing the error to the agent


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vibe-jupyter run`."""
    parser.epilog = EXIT_CODES
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument(
        "-p",
        "--prompt",
        help="a prompt for the agent, run in a new %%%%vibe cell at the end, or once a cell has failed; "
        "the exit code is then 0 if the notebook runs at the end; - reads it from stdin",
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
            prompt=None if chosen.prompt is None else read_prompt(chosen.prompt, _WITH_PROMPT),
            allowed=chosen.yes,
            save_as=chosen.save_as,
            timeout=chosen.timeout,
            kernel=chosen.kernel,
            settings=_chosen_settings(chosen),
            stop_on_error=chosen.stop_on_error,
        )
    )


def _chosen_settings(chosen: argparse.Namespace) -> dict[str, str]:
    options = chosen_options(chosen)
    given = {name: getattr(options, name) for name in _SETTINGS}
    return {_SETTINGS[name]: str(value) for name, value in given.items() if value is not None}


def run_notebook(options: RunOptions) -> int:
    """Run and save the notebook. Returns the exit code.

    Raises:
        ConfigError: Invalid options or settings; nothing ran.
        NotebookError: The kernel doesn't start, or the result can't be saved.
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
    say = _Progress(sum(bool(cell["source"].strip()) for cell in _code_cells(document)) + added)
    for repaired in file.repairs:
        say.line(f"Repaired: {repaired}.")
    try:
        kernel = KernelProcess(name, file.path, environment=options.settings)
        try:
            code = _run_in(kernel, name, document, options, say)
            # Otherwise a notebook in which nothing had to run would leave no result in another file.
            document.dirty |= bool(file.repairs) or Path(os.path.realpath(target)) != file.path
        finally:
            kernel.close()
    except KeyboardInterrupt:
        say.line("Interrupted.")
        code = INTERRUPTED
    finally:
        if document.dirty:
            file.save(target)
    say.line(f"Saved as {target}." if document.dirty else f"Nothing was run. {target} is as it was.")
    return code


def _check_kernel(kernel: KernelProcess, name: str) -> None:
    """Check before the first cell runs that the kernel can run prompts.

    Raises:
        ConfigError: It isn't a Python kernel, or its environment lacks this package.
    """
    found = kernel.evaluate("__import__('importlib.util').util.find_spec('vibe_jupyter') is not None")
    if found not in ("True", "False"):
        raise ConfigError(
            f"The kernel {name!r} did not evaluate a line of Python, which %%vibe cells need. Run the notebook without "
            "them and without -p, or choose a kernel of Python with --kernel."
        )
    if found == "False":
        python = kernel.evaluate("__import__('sys').executable").strip("'\"")
        raise ConfigError(
            f"The kernel {name!r} runs in an environment without {PACKAGE}, which its %%vibe cells need. "
            f"Install it there: {pip_install(f'{python} -m pip')}"
        )


def _check_choices(options: RunOptions) -> None:
    """Check that the model and agent on the command line exist, because the first prompt may only run hours later.

    Raises:
        ConfigError: One doesn't exist.
    """
    model, agent = (options.settings.get(_SETTINGS[one]) for one in ("model", "agent"))
    if model is None and agent is None:
        return
    from vibe_jupyter import config
    from vibe_jupyter.app.project import KernelSettings

    environ = {**os.environ, **options.settings}
    settings = KernelSettings(options.notebook.absolute().parent, environ).current(agent).reading.settings
    if model not in (None, TOUR):
        config.choose_model(settings, model, environ, keyed=False)  # unkeyed, because a cell may set the key


def _run_in(kernel: KernelProcess, name: str, document: HeadlessDocument, options: RunOptions, say: "_Progress") -> int:
    """Run the cells and the prompt, if any. Returns the exit code."""
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
    loading = (cell for cell in _code_cells(document) if _LOADED.search(cell["source"]))
    return any(SKIP_TAG not in cell_tags(cell) for cell in loading)


class _CellsInOrder:
    """Execution of code cells in order, like Run All. Cells added by the agent are executed by its tools."""

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
        self._skipped: set[str] = set()  # ids of cells whose tag says so
        # Execution counts of cells that ended well here, by id. Their outputs may hold an error that code caught and
        # showed, as %run does.
        self._passed: dict[str, int | None] = {}

    def run(self, ids: Sequence[str]) -> int:
        """Run cells up to the first that fails. Returns the exit code."""
        code = DONE
        for cell_id in ids:
            cell = next((cell for cell in self._document.cells if cell["id"] == cell_id), None)
            if cell is None or not cell["source"].strip():
                continue
            self._say.begin(cell["source"])
            if SKIP_TAG in cell_tags(cell):
                self._say.note(f"skipped, as its tag {SKIP_TAG} says")
                self._skipped.add(cell_id)
                continue
            outcome = self._run_cell(cell_id, cell["source"])
            meant = outcome.status == "error" and may_raise(cell)
            self._say.end(outcome, cell, meant=meant)
            if outcome.status != "ok" and not meant:
                return _agent_exit(cell) if _agent_failed(outcome, cell) else CELL_FAILED
            self._passed[cell_id] = cell["execution_count"]
            if not _agent_came_to_its_end(cell):
                code = _agent_exit(cell)
        return code

    def _run_cell(self, cell_id: str, source: str) -> CellOutcome:
        """Run one cell. If the kernel dies, preserve its outputs, and continue if the agent has turns left."""
        began = time.monotonic()
        told = self._deaths.told() if is_prompt_cell(source) else ""
        added = f"\n\n{told}" if told else ""
        outcome = self._notebook_run.run_cell(cell_id, timeout=self._timeout, added=added)
        return self._deaths.handle(cell_id, outcome, began, self._timeout)

    def run_and_repair(self, originals: Mapping[str, str]) -> int:
        """Run the cells, leaving a failure to the prompt at the end. Returns 0 if all cells run in the end.

        Args:
            originals: Sources of the user's code cells by id, as in the file.
        """
        prompt = [cell_id for cell_id in _ids(self._document) if cell_id not in originals]
        first = self.run(list(originals))
        loads = len(prompt) > 1
        if not self._notebook_run.is_alive:
            self._say.note("The kernel is restarted for the prompt; no cell is run again.")
            self._deaths.restart(loads=loads)
        elif not loads and first != DONE:
            self._notebook_run.run_aside(LOAD)  # the cell that loads it may be below the one that failed
        if (code := self.run(prompt)) != DONE:
            return code
        return self._run_rest(originals, prompt) if first in (DONE, CELL_FAILED) else first

    def _run_rest(self, originals: Mapping[str, str], prompt: Sequence[str]) -> int:
        """Run the cells that haven't run in their current form, such as those after one that failed.

        Stops at a cell that the agent changed but didn't run, since nobody approved it.

        Args:
            originals: Sources of the user's code cells by id, as in the file.
            prompt: Ids of the cells that were added for the prompt.
        """
        done = {*prompt, *self._skipped}
        for cell in _code_cells(self._document):
            if cell["id"] in done or not cell["source"].strip() or self._has_run(cell):
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
        """Return whether the cell ran in its current form, without an error or with one that its tag allows."""
        if not self._document.has_begun(cell["id"]) or cell["execution_count"] is None:
            return False
        if self._document.edited_since_run(cell):
            return False
        if self._passed.get(cell["id"]) == cell["execution_count"] or may_raise(cell):
            return True
        return all(output["output_type"] != "error" for output in cell["outputs"])


def _agent_exit(cell: dict[str, Any]) -> int:
    """Return the exit code for a cell whose agent didn't finish."""
    return next((exit_code(end) for end in _ends(cell) if end not in _GOOD_ENDS), AGENT_FAILED)


def _agent_failed(outcome: CellOutcome, cell: dict[str, Any]) -> bool:
    """Return whether the cell failed because the agent's run did."""
    died_in_prompt = outcome.status == "died" and is_prompt_cell(cell["source"])
    return died_in_prompt or outcome.error.startswith(f"{RunFailed.__name__}:")


def _ids(document: HeadlessDocument) -> list[str]:
    return [cell["id"] for cell in _code_cells(document)]


def _code_cells(document: HeadlessDocument) -> list[dict[str, Any]]:
    return [cell for cell in document.cells if cell["cell_type"] == "code"]


def _ends(cell: dict[str, Any]) -> list[Any]:
    """Return the finish reasons of a cell's outputs, None for outputs that aren't a run's."""
    return [_own_metadata(output).get("reason") for output in cell["outputs"]]


def _own_metadata(output: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a run of the agent stored with its output, {} for outputs of code, which may hold anything there."""
    found: object = output.get("metadata", {}).get(METADATA_KEY)
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _agent_came_to_its_end(cell: dict[str, Any]) -> bool:
    """Return whether all runs in a cell finished well. A run that couldn't start only leaves a message on stderr."""
    ends = _ends(cell)
    if not gives_prompt(cell["source"]) or any(ends):
        return all(end in _GOOD_ENDS for end in ends)
    return not any(map(_is_refusal, cell["outputs"]))


def _said_by_agent(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all outputs of a `%%vibe` cell, but of other cells only those of runs and refusals."""
    if is_prompt_cell(cell["source"]):
        return cell["outputs"]
    return [one for one in cell["outputs"] if METADATA_KEY in one.get("metadata", {}) or _is_refusal(one)]


def _is_refusal(output: dict[str, Any]) -> bool:
    return output.get("name") == "stderr" and output["text"].startswith("vibe:")


def _first_line(source: str) -> str:
    lines = source.strip().splitlines()
    first = " ".join(lines[:2]) if lines[0].startswith("%%") else lines[0]
    return first if len(first) <= LABEL_WIDTH else f"{first[: LABEL_WIDTH - 1]}…"


class _Progress:
    """Progress output: a line per cell, and the agent's answers."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._number = 0
        self._named: set[str] = set()  # variables beyond undo that have already been reported
        self._began = 0.0

    def line(self, text: str) -> None:
        print_readable(text)

    def begin(self, source: str) -> None:
        self._number += 1
        self._began = time.monotonic()
        self._total = max(self._total, self._number)
        self.line(f"[{self._number}/{self._total}] {_first_line(source)}")

    def note(self, text: str) -> None:
        self.line(f"      {text}")

    def _warn_of_undo(self, cell: dict[str, Any]) -> None:
        said = (_own_metadata(output).get("not_undone", []) for output in cell["outputs"])
        names = [name for names in said for name in names if name not in self._named]
        self._named.update(names)
        if names:
            print_readable(f"      {lost_words(names)}", sys.stderr)

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
            print_readable(f"      {outcome.status}: {outcome.error} ({seconds:.1f} s)", sys.stderr)
