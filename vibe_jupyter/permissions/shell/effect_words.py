"""Building blocks of command explanations, and explanations by the rows of a table."""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.sizes import bytes_text
from vibe_jupyter.files.workspace import Located, Workspace
from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.command_parts import WordOfPart, shell_words
from vibe_jupyter.permissions.shell.effect_rows import BLANK, RISKS, EffectRow, Tag
from vibe_jupyter.permissions.shell.git_commands import SUBCOMMANDS
from vibe_jupyter.permissions.shell.measuring import Meter, expand_glob
from vibe_jupyter.permissions.shell.options import CommandArgument
from vibe_jupyter.permissions.shell.read_only_commands import readers

if TYPE_CHECKING:
    from vibe_jupyter.protocol import Risk  # `vibe-jupyter permission` starts without pydantic

NAMES_SHOWN: Final = 3  # operands that are listed individually
COMMAND_SHOWN: Final = 80  # characters of a command in a sentence
LEVELS: Final[tuple["Risk", ...]] = ("low", "medium", "high")
DELETES: Final = "Can't be undone"
CANNOT_TELL: Final = "Vibe can't tell what this does"


class Finding(NamedTuple):
    """Explanation of one command."""

    text: str  # sentence without its period; names are in backticks
    tag: Tag
    detail: str = ""  # further sentences, or ''
    action: str = ""  # effect as the label of a button, or '' for the default label

    @property
    def level(self) -> int:
        """Index of its risk in `LEVELS`."""
        return LEVELS.index(RISKS[self.tag])


NOT_EXPLAINED: Final = Finding(CANNOT_TELL, "Unclear")


@dataclass(frozen=True)
class PartCall:
    """A command to explain."""

    words: Sequence[WordOfPart]
    workspace: Workspace
    here: Path | None  # working directory, or None if unknown
    meter: Meter | None  # None if nothing is to be measured
    explain_inner: "Callable[[PartCall], Finding]"  # explains a command started by this one
    fed_by: str = ""  # name of the command piped into this one, or ''
    ends: float = math.inf  # time until which patterns of the user's own rows are compared

    @property
    def name(self) -> str:
        """Name of the program without its directory."""
        return os.path.basename(self.words[0].text)

    @property
    def arguments(self) -> Sequence[WordOfPart]:
        """All words but the name."""
        return self.words[1:]

    @cached_property
    def lines(self) -> str:
        """The arguments, each on a line of its own."""
        return "".join(word.text.replace("\n", " ") + "\n" for word in self.arguments)

    def has(self, *options: str) -> bool:
        """Return whether one of the options is given. ``-rf`` counts as ``-r`` and ``-f``."""
        return any(_is_option(word.text, option) for word in self.arguments for option in options)

    def operands(self, valued: str = "") -> list[WordOfPart]:
        """Return the arguments that aren't options.

        Args:
            valued: Options that take the next word as their value, such as ``-n --lines``.
        """
        options = valued.split()
        letters = "".join(option[1] for option in options if len(option) == 2)
        ends = re.compile(rf"-(?!-)[^{letters}]*[{letters}]") if letters else None
        out: list[WordOfPart] = []
        words = iter(self.arguments)
        for word in words:
            if word.text == "--":
                return [*out, *words]
            if not word.text.startswith("-") or word.text == "-":
                out.append(word)
            elif word.text in options or (ends is not None and ends.fullmatch(word.text)):
                next(words, None)  # in `-XPOST` the value is attached
        return out

    def inner(self, words: Sequence[WordOfPart], fed_by: str = "") -> Finding:
        """Explain a command started by this one."""
        return self.explain_inner(replace(self, words=words, fed_by=fed_by)) if words else NOT_EXPLAINED

    def located(self, word: WordOfPart) -> Located | None:
        """Resolve a path, or return None if that is impossible."""
        if not word.literal or word.wild or self.here is None:
            return None
        try:
            return self.workspace.resolve(str(self.here / word.text))
        except ToolError:
            return None

    def paths(self, words: Sequence[WordOfPart]) -> list[Path] | None:
        """Resolve words to paths, expanding globs against the file system. None if they can't be resolved."""
        if self.here is None or not all(word.literal for word in words):
            return None
        here = self.here
        return [path for word in words for path in (expand_glob(word.text, here) if word.wild else [here / word.text])]


def _is_option(word: str, option: str) -> bool:
    if option.startswith("--"):
        return word == option or word.startswith(f"{option}=")
    return word.startswith("-") and not word.startswith("--") and option[1:] in word[1:]


def explain_by_row(row: EffectRow, call: PartCall, *, is_own: bool = False) -> Finding | None:
    """Describe a call by a row, or return None if the row doesn't fit.

    A row of the user's fits even if a name in its text has no value: a missing word of a sentence is better than a
    missing risk.
    """
    operands = call.operands(row.valued)
    behind = _behind(row.words, operands)
    if behind is None or (row.after and not (call.fed_by and _is_one_of(call.fed_by, row.after))):
        return None
    found = _pattern(row.arguments).search(call.lines)
    if found is None:
        return None
    inner = NOT_EXPLAINED
    started = call.arguments[call.lines[: found.end()].count("\n") :] if row.starts else ()
    if row.starts and not started and not is_own:
        return None
    if started:
        inner = call.inner(started, "" if call.name in _TAKE_INPUT else call.fed_by)
    groups = {str(number): group.replace("\n", " ") for number, group in enumerate(found.groups(), start=1) if group}
    values = {
        **{number: f"`{group}`" for number, group in groups.items()},
        **dict.fromkeys(("names", "files"), name_list(behind)),
        "first": name_list(behind[:1]),
        "sources": name_list(behind[:-1]),
        "target": name_list(behind[-1:]),
        "word": operands[0].raw if operands else "",
        "host": _host_text(operands),
        "program": call.name,
        "command": command_text(call.words),
        "started": inner.text,
    }
    text = _filled(row.text, values, is_own=is_own)
    if text is None:
        return None
    said = _filled(row.detail, values, is_own=is_own) or ""
    action = (_filled(row.action, {**values, "started": inner.action}, is_own=is_own) or inner.action).replace("`", "")
    finding = Finding(text or CANNOT_TELL, row.tag, said, action)
    if started:
        detail = " ".join(filter(None, (inner.detail, said)))
        return finding._replace(tag=max(inner, finding, key=lambda one: one.level).tag, detail=detail)
    if "{files" in row.text or "{sources" in row.text:
        finding = reading(call, behind if "{files" in row.text else behind[:-1], finding)
    return overwriting(call, behind[-1], finding) if "{target" in row.text and behind else finding


_TAKE_INPUT: Final = ("xargs", "parallel")
_NOTHING: Final = "\0"  # in place of a value that a sentence asks for and a command lacks; no argument has it
_GAP: Final = re.compile(r"\s*\(\0\)|\s*\0")


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.MULTILINE)


def _is_one_of(text: str, alternatives: str) -> bool:
    return any(fnmatchcase(text, one) for one in alternatives.split("|"))


def _behind(words: str, operands: Sequence[WordOfPart]) -> Sequence[WordOfPart] | None:
    """Return the operands behind the words of a row, or None if they are others."""
    at = 0
    for step in words.split():
        if step == "$":
            return None if at < len(operands) else ()
        if at < len(operands) and _is_one_of(operands[at].text, step.removesuffix("?")):
            at += 1
        elif not step.endswith("?"):
            return None
    return operands[at:]


def _filled(sentence: str, values: Mapping[str, str], *, is_own: bool) -> str | None:
    """Replace the names in a sentence. If one has neither a value nor a default, drop it or return None."""
    filled = BLANK.sub(lambda blank: values.get(blank[1]) or (_NOTHING if blank[2] is None else blank[2]), sentence)
    if _NOTHING in filled:
        return _GAP.sub("", filled).strip() if is_own else None
    return filled


def _host_text(operands: Sequence[WordOfPart]) -> str:
    address = next((word for word in operands if "." in word.text or "/" in word.text), None)
    if address is None or not address.literal:
        return "an address that can't be told"
    text = address.text if "://" in address.text else f"//{address.text}"
    try:
        return f"`{urlsplit(text).hostname or address.text}`"
    except ValueError:
        return f"`{address.text}`"


def only_reads(call: PartCall) -> bool:
    """Return whether the options of a command are known to make it only read, wherever its operands are."""
    arguments = [CommandArgument(word.text) for word in call.arguments]
    row = readers().get(call.name)
    try:
        if row is not None and not row.words:
            row.parse(arguments, call.name)
        elif call.name == "git" and arguments and (sub := SUBCOMMANDS.get(arguments[0].text)) is not None:
            end = next((at for at, one in enumerate(arguments) if one.text == "--"), len(arguments))
            sub.options.parse(arguments[1:end], f"git {arguments[0].text}")
    except UnknownCommand:
        return False
    return True


def name_list(words: Sequence[WordOfPart]) -> str:
    """List names in backticks, at most `NAMES_SHOWN`: "`a`, `b` and 3 more"."""
    shown = [f"`{word.raw}`" for word in words[:NAMES_SHOWN]]
    if len(words) > NAMES_SHOWN:
        return f"{', '.join(shown)} and {len(words) - NAMES_SHOWN:,} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1]))) if shown else ""


def command_text(words: Sequence[WordOfPart]) -> str:
    """Format a command as inline code, at most `COMMAND_SHOWN` characters."""
    text = shell_words(words)
    return f"`{text}`" if len(text) <= COMMAND_SHOWN else f"`{text[:COMMAND_SHOWN]}…`"


def reading(call: PartCall, operands: Sequence[WordOfPart], finding: Finding) -> Finding:
    """Add to the explanation of a command that reads its operands the risk of the places they are in."""
    places = [place for word in operands if (place := call.located(word)) is not None]
    for place in places:
        if (why := place.protection("read")) and RISKS[finding.tag] != "high":
            return Finding(finding.text, "Reads secrets", f"{place.shown} {why}.", "read secrets")
    outside = finding.tag == "Harmless" and any(not place.inside for place in places)
    return finding._replace(tag="Reads outside the project") if outside else finding


def overwriting(call: PartCall, word: WordOfPart, finding: Finding) -> Finding:
    """Warn if a file that a command writes would be replaced."""
    if call.here is None or call.meter is None or not word.literal or word.wild or finding.detail:
        return finding
    target = call.here / word.text
    size = call.meter.size_of(target) if target.is_file() else None
    if size is None or not size.bytes:
        return finding
    return finding._replace(detail=f"`{word.raw}` exists ({bytes_text(size.bytes)}): its content is replaced.")
