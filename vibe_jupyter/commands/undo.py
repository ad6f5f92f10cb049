"""`%vibe undo`: undo a run, or list the runs."""

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from IPython.core.error import StdinNotImplementedError

from vibe_jupyter.app.undo import NO_RUN
from vibe_jupyter.errors import ConfigError, NotebookError
from vibe_jupyter.session.snapshots import RunChanges

if TYPE_CHECKING:
    from vibe_jupyter.app import App
    from vibe_jupyter.app.undo import UndoResult
    from vibe_jupyter.session.undo_plan import UndoPlan

_PROMPT: Final = 60  # characters of a prompt in the list
_STAYS: Final = "Outputs still show the last run."


def undo_command(app: "App", words: Sequence[str]) -> str | None:
    """Run the command. Returns the text to print, or None if the words aren't its arguments."""
    match words:
        case ["list" | "--list"]:
            return _listing(app.undo.runs())
        case [*numbers, "yes"]:
            is_sure = True
        case numbers:
            is_sure = False
    if len(numbers) > 1 or not all(one.isdecimal() for one in numbers):
        return None
    if app.is_serving:
        raise NotebookError("A run is active in this kernel. End it with Stop or ■, then undo it.")
    plan = app.undo.plan(int(numbers[0]) if numbers else None)
    if plan.changed_since and not is_sure and not _agrees(plan):
        return "Nothing was undone."
    return result_text(plan, app.undo.carry_out(plan))


def result_text(plan: "UndoPlan", result: "UndoResult") -> str:
    """Describe by name what was restored and what wasn't."""
    if result.restored:
        done = f"Undone: {', '.join(result.restored)}."
    else:
        done = "Nothing was undone." if result.lost else "Everything is as it was before the run."
    lost = [f"Not restored: {'; '.join(result.lost)}."] if result.lost else []
    return " ".join([done, *lost, _STAYS])


def _agrees(plan: "UndoPlan") -> bool:
    changed = ", ".join(plan.changed_since)
    asked = f"{changed} changed since the run; undoing it loses those changes."
    try:
        return builtins.input(f"{asked} Undo all the same? [y/N] ").strip().lower() in ("y", "yes")
    except StdinNotImplementedError:
        raise ConfigError(f"{asked} %vibe undo {plan.run.number} yes does it all the same.") from None
    except EOFError:
        return False


def _listing(runs: Sequence[RunChanges]) -> str:
    if not runs:
        return NO_RUN
    lines = [
        f"{run.number:>3}  {_short(run.prompt):<{_PROMPT}}  {_counted(run)}{' · undone' if run.undone else ''}"
        for run in runs
    ]
    return "\n".join([*lines, "%vibe undo N restores what a run changed; without N what the last one did."])


def _short(prompt: str) -> str:
    return prompt if len(prompt) <= _PROMPT else f"{prompt[: _PROMPT - 1]}…"


def _counted(run: RunChanges) -> str:
    files = [one.name for one in run.changes if one.kind == "file"]
    cells = len(run.changes) - len(files)
    counted = [f"{cells} cell{'s' * (cells != 1)}"] if cells else []
    return ", ".join([*counted, *files, *(f"variable {name}" for name in run.variables)])
