"""Variables in the report before a prompt: first those that the prompt mentions, then the newest."""

import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from vibe_jupyter.files.truncation import cut_end
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.notebook.outline import listed
from vibe_jupyter.notebook.replay import Mark
from vibe_jupyter.variables.adapters import class_mro, is_one_of, module_of, type_of
from vibe_jupyter.variables.describing import Describing

VARIABLES_LIMIT: Final = 1_400  # characters of all lines together
WORD: Final = lazy_pattern(r"[^\W\d]\w*")  # possible names in a prompt
# Characters of `VARIABLES_LIMIT` reserved for imports, deleted variables and the names that didn't fit.
_OTHER_LINES: Final = 300
_VARIABLE: Final = 170  # characters per variable
_DETAILS: Final = 30  # characters from which equal column descriptions are shown only once
_SHORTEST_LABEL: Final = 2  # letters of a column label that a prompt can mention; a single letter is usually a word
_COLUMNS_AS: Final = " (columns as "
_LABELS: Final = 4  # columns shown because the prompt mentions them


def variable_lines(
    prompt: str,
    values: Mapping[str, object],
    known: Mapping[str, Mark],
    marks: Mapping[str, Mark],
    describing: Describing,
) -> list[str]:
    """Describe new and changed variables: those the prompt names, those with a column it names, then the newest."""
    changed = [name for name in reversed(list(marks)) if known.get(name) != marks[name]]
    words = set(WORD.findall(prompt))
    imports = [name for name in changed if _is_imported(values[name])]
    data = [name for name in changed if not _is_imported(values[name])]
    is_meant = _label_finder(prompt)
    meant = {name: list(filter(is_meant, describing.labels(values[name]))) for name in data}
    data.sort(key=lambda name: (name not in words, not meant[name]))
    lines: list[str] = []
    columns: dict[str, str] = {}
    room = VARIABLES_LIMIT - _OTHER_LINES
    for place, name in enumerate(data):
        line = _variable_line(name, values[name], meant[name][:_LABELS], columns, describing)
        if name in known and known[name].identity == marks[name].identity and not marks[name].exact:
            line += "; changed in place"
        room -= len(line) + 1
        if room < 0:
            left = len(data) - place
            lines.append(cut_end(f"and {left} more: {', '.join(data[place : place + 40])}", 250))
            break
        lines.append(line)
    if imports:
        lines.append(cut_end(f"imports: {listed(list(reversed(imports)))}", 200))
    gone = [name for name in known if name not in marks]
    if gone:
        lines.append(f"no longer defined: {listed(gone)}")
    return lines


def _variable_line(
    name: str, value: object, meant: Sequence[str], columns: dict[str, str], describing: Describing
) -> str:
    """Describe a variable. Columns that the prompt mentions are appended if the line was cut before them."""
    line = cut_end(_told_columns(name, f"{name}: {describing.line(value)}", columns), _VARIABLE)
    unseen = [label for label in meant if not _names(line, label)]
    if not unseen or _COLUMNS_AS in line:
        return line
    also = ", ".join(f"{label} {dtype}" for label, dtype in describing.types(value, unseen).items())
    return f"{line}; has {also or ', '.join(unseen)}"


def _label_finder(prompt: str) -> Callable[[str], bool]:
    """Return a predicate for column labels that the prompt mentions, ignoring case."""
    text = prompt.casefold()
    words = set(WORD.findall(text))

    def is_meant(label: str) -> bool:
        bare = label.strip().casefold()
        if len(bare) < _SHORTEST_LABEL:
            return False
        if bare.isidentifier():
            return bare in words
        return bare in text and _names(text, bare)

    return is_meant


def _names(text: str, label: str) -> bool:
    """Return whether the label occurs in the text as a whole word."""
    return re.search(rf"(?<!\w){re.escape(label)}(?!\w)", text) is not None


def _told_columns(name: str, line: str, columns: dict[str, str]) -> str:
    """Replace columns that an earlier variable has too by a reference to it."""
    head, bracket, details = line.partition(" (")
    if not bracket or len(details) < _DETAILS:
        return line
    earlier = columns.setdefault(details, name)
    return line if earlier == name else f"{head}{_COLUMNS_AS}{earlier})"


def _is_imported(value: object) -> bool:
    cls = type_of(value)
    if cls is types.ModuleType:
        return True
    if cls is types.FunctionType or cls is types.BuiltinFunctionType:
        return cast("types.FunctionType", value).__module__ not in ("__main__", None)
    return is_one_of(type, class_mro(cls)) and module_of(cast(type, value)) not in ("__main__", "")
