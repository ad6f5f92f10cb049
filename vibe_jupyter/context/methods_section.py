"""A notebook's methods section in Markdown: data, steps, rows, authors, checks and software.

It states what was recorded, and what wasn't. No model is involved.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from vibe_jupyter.context.executions import RowStep
from vibe_jupyter.files.sizes import bytes_text
from vibe_jupyter.notebook.cell_names import cell_names, gives_prompt
from vibe_jupyter.notebook.frame_operations import read_files
from vibe_jupyter.notebook.name_steps import Act
from vibe_jupyter.notebook.verification import VerifiedCells
from vibe_jupyter.protocol import Cell, CellOrigin, changed_since, origin_of

TITLE: Final = "## Methods"
_STATES: Final = {
    "never": "; *not run*",
    "failed": "; *ended with an error*",
    "edited": "; *changed since it ran*",
    "stale": "; *not run since what it reads changed*",
}
_MODULE: Final = "module "  # prefix of an imported module's key
_NAMES: Final = 4  # names listed per cell
_COMMENT: Final = 100  # characters of a comment that describes a cell
_HASH_DIGITS: Final = 16
_MARKS: Final = re.compile(r"[\\`*_{}\[\]<>!$|~&]")  # characters with a meaning in Markdown or in its formulas


class DataFile(NamedTuple):
    """Input file of a notebook, as it is now."""

    name: str  # as written in the code
    size: int | None = None  # bytes, or None for URLs and missing files
    digest: str = ""  # SHA-256, or "" if not computed
    changed_after: str = ""  # modification time if later than the read, else ""


class MethodsFacts(NamedTuple):
    """Recorded facts about a notebook."""

    now: datetime
    cells: Sequence[Cell]
    steps: Mapping[str, RowStep]  # latest counted run of each cell, by cell id
    files: Mapping[str, DataFile]  # by the name in the code
    versions: Sequence[tuple[str, str]]  # imported libraries and their versions, Python first
    verified: VerifiedCells | None
    others: int  # number of code snippets that the agent ran outside of cells


def methods_section(facts: MethodsFacts) -> str:
    """Format the section, without empty parts."""
    code = [cell for cell in facts.cells if _is_step(cell)]
    parts = (
        TITLE,
        f"*Made by `%vibe report` on {_day(facts.now)}, from what the kernel recorded.*",
        _data(facts, code),
        _steps(code),
        _rows(facts, code),
        _authors(code),
        _checks(facts),
        _software(facts),
        _unknown(facts, code),
    )
    return "\n\n".join(filter(None, parts))


def imported_modules(cells: Iterable[Cell]) -> list[str]:
    """Return the sorted names of packages that the cells import."""
    keys = (step.key for cell in cells if _is_step(cell) for step in cell_names(cell.source).steps)
    return sorted({key.removeprefix(_MODULE).split(".")[0] for key in keys if key.startswith(_MODULE)})


def _is_step(cell: Cell) -> bool:
    source = cell.source.strip()
    is_command = source.startswith("%vibe") or (source.startswith("%load_ext") and "\n" not in source)
    return cell.kind == "code" and bool(source) and not is_command and not gives_prompt(cell.source)


def _data(facts: MethodsFacts, code: Sequence[Cell]) -> str:
    places: dict[str, list[Cell]] = {}
    for cell in code:
        for name in read_files(cell.source):
            places.setdefault(name, []).append(cell)
    if not places:
        return "**Data.** No cell names a file that it reads."
    lines = [
        f"- {_as_code(name)}{_file_words(facts.files.get(name))}, read in {_links(at)}" for name, at in places.items()
    ]
    return "\n".join(["**Data.**", "", *lines])


def _file_words(file: DataFile | None) -> str:
    if file is None or file.size is None:
        return ""
    digest = f", SHA-256 `{file.digest[:_HASH_DIGITS]}…`" if file.digest else ""
    changed = f", **written again since it was read ({file.changed_after})**" if file.changed_after else ""
    return f" ({bytes_text(file.size)}{digest}{changed})"


def _steps(code: Sequence[Cell]) -> str:
    if not code:
        return "**Steps.** There is no code."
    lines = [f"{number}. {_link(cell)}: {_purpose(cell)}" for number, cell in enumerate(code, 1)]
    return "\n".join(["**Steps**, in the order of the notebook.", "", *lines])


def _purpose(cell: Cell) -> str:
    """Describe a cell by its leading comment, or by the names it binds."""
    first = next((line.strip() for line in cell.source.splitlines() if line.strip() and not line.startswith("%")), "")
    steps = cell_names(cell.source).steps
    bound = dict.fromkeys(step.name for step in steps if step.act in (Act.BIND, Act.ALIAS) and not step.key)
    names = [name for name in bound if name and not name.startswith("_")]
    if first.startswith("#"):
        words = _as_text(first.lstrip("# ").rstrip(".:")[:_COMMENT])
    elif names:
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        words = f"makes {', '.join(f'`{name}`' for name in names[:_NAMES])}{more}"
    elif any(step.key.startswith(_MODULE) for step in steps):
        words = "imports libraries"
    else:
        words = _as_code(first[:_COMMENT])
    return words + _STATES.get(cell.state, "")


def _rows(facts: MethodsFacts, code: Sequence[Cell]) -> str:
    lines = [
        f"| {_link(cell)} | {name} | {one.before:,} | {one.after:,} | {', '.join(one.operations)} |"
        for cell in code
        if (step := _step_of(cell, facts)) is not None
        for one in step.losses
        for name in [f"`{one.name}`" if one.source == one.name else f"`{one.name}` of `{one.source}`"]
    ]
    if not lines:
        return (
            "**Rows lost.** None was recorded: by a join, by dropping empty or repeated rows, or of a frame made "
            "shorter under its own name."
        )
    head = "| cell | frame | rows before | rows after | by |\n|---|---|---:|---:|---|"
    return "\n".join(["**Rows lost.**", "", head, *lines])


def _step_of(cell: Cell, facts: MethodsFacts) -> RowStep | None:
    """Return the counted run of a cell's current source, or None."""
    step = facts.steps.get(cell.id)
    return step if step is not None and step.source == cell.source else None


def _authors(code: Sequence[Cell]) -> str:
    origins = [(cell, origin) for cell in code if (origin := origin_of(cell)) is not None]
    if not origins:
        return "**Authors.** No code cell says that an agent wrote it."
    groups: dict[str, list[Cell]] = {}
    for cell, origin in origins:
        groups.setdefault(f"{_model(origin)}, {_approval(origin)}", []).append(cell)
    own = [cell for cell in code if origin_of(cell) is None]
    changed = [cell for cell, origin in origins if changed_since(cell, origin)]
    lines = [f"- {_links(cells)}: {how}" for how, cells in groups.items()]
    lines += [f"- {_links(own)}: not by an agent"] if own else []
    after = f"Changed by hand after the agent: {_links(changed)}." if changed else "None was changed by hand since."
    count = f"{len(origins)} of {len(code)} code cells were written or changed by an agent:"
    return "\n".join([f"**Authors.** {count}", "", *lines, "", after])


def _model(origin: CellOrigin) -> str:
    name, _, server = _as_text(origin.model).partition("@")
    return f"{name} at {server}" if server else name


def _approval(origin: CellOrigin) -> str:
    day = origin.approved.time.partition("T")[0]
    match origin.approved.by:
        case "user":
            return f"approved by the user on {day}"
        case "settings":
            return f"on {day}, allowed in advance ({_as_code(origin.approved.rule)})"
        case "code":
            return f"on {day}, approved by code: neither a click nor typed text was seen"


def _checks(facts: MethodsFacts) -> str:
    verified = facts.verified
    if verified is None:
        return "**Checks.** The notebook was not run from the top in a fresh kernel, as far as this kernel knows."
    cells = {cell.id: cell for cell in facts.cells}
    failing = [cells[one.cell] for one in verified.verdicts if one.kind in ("differs", "error") and one.cell in cells]
    what = f"{_links(failing)} showed something else or failed" if failing else "every output was the same"
    now = [cell for cell in facts.cells if _is_step(cell) and verified.hashes.get(cell.id) != cell.hash]
    since = f" New or changed since then: {_links(now)}." if now else ""
    return f"**Checks.** On {_day(verified.time)} the notebook was run from the top in a fresh kernel: {what}.{since}"


def _software(facts: MethodsFacts) -> str:
    return f"**Software.** {', '.join(f'{name} {version}' for name, version in facts.versions)}."


def _unknown(facts: MethodsFacts, code: Sequence[Cell]) -> str:
    uncounted = [cell for cell in code if cell.execution_count is not None and _step_of(cell, facts) is None]
    lines: list[str] = []
    if uncounted:
        lines.append(
            f"- Rows in {_links(uncounted)}: run before the first prompt, in an earlier kernel, or changed since."
        )
    if facts.others:
        times = "once" if facts.others == 1 else f"{facts.others} times"
        lines.append(f"- What code did that stands in no cell: the agent ran some {times}.")
    missing = [file.name for file in facts.files.values() if file.size is None and "://" not in file.name]
    if missing:
        lines.append(f"- Size and hash of {', '.join(map(_as_code, missing))}: no such file now.")
    return "\n".join(["**Not known.**", "", *lines]) if lines else ""


def _as_text(words: str) -> str:
    """Escape Markdown in a cell's text. A comment may otherwise contain an image, which the page would load."""
    return _MARKS.sub(r"\\\g<0>", " ".join(words.split())).replace("\\\\", "&#92;")


def _as_code(words: str) -> str:
    return f"`{' '.join(words.replace('`', '').split())}`"


def _link(cell: Cell) -> str:
    name = f"[{cell.execution_count}]" if cell.execution_count is not None else f"cell {cell.number}"
    label = name.replace("[", "\\[").replace("]", "\\]")
    return f"[{label}](#cell-id={cell.id})"


def _links(cells: Sequence[Cell]) -> str:
    return ", ".join(map(_link, cells))


def _day(time: datetime) -> str:
    return f"{time.day} {time:%B %Y, %H:%M} UTC"
