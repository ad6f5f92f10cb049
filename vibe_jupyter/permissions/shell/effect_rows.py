"""Rows that explain commands: those of `effects.toml`, which says what their keys mean, and the user's own.

Imports little, because settings with such rows are read before the first request.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, get_args

if TYPE_CHECKING:
    from vibe_jupyter.protocol import Risk  # `vibe-jupyter permission` starts without pydantic

_SHIPPED: Final = Path(__file__).with_name("effects.toml")
PATTERN_LIMIT: Final = 200  # characters of a user's pattern
LONGEST: Final = 400  # characters of arguments that a user's pattern is compared with
BLANK: Final = re.compile(r"\{(\w+)(?:\|([^{}]*))?\}")  # a name in a sentence, with its default
NAMES: Final = frozenset(
    {"names", "first", "files", "sources", "target", "word", "host", "program", "command", "started"}
)
_BRACES: Final = re.compile(r"\{[^{}]*\}?|\}")
# Control characters, line breaks, and characters that change the direction of a text.
_HIDDEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

Low = Literal["Harmless", "Reads outside the project"]
Medium = Literal[
    "Changes files",
    "Runs code",
    "Downloads",
    "Installs software",
    "Stops programs",
    "Changes the repository",
    "Changes this computer",
    "Unclear",
]
High = Literal[
    "Can't be undone",
    "Leaves this computer",
    "Affects others",
    "Reads secrets",
    "Runs downloaded code",
    "Runs as administrator",
]
Tag = Literal[Low, Medium, High]
RISKS: Final[Mapping[Tag, "Risk"]] = {
    **dict.fromkeys(get_args(Low), "low"),
    **dict.fromkeys(get_args(Medium), "medium"),
    **dict.fromkeys(get_args(High), "high"),
}


@dataclass(frozen=True)
class EffectRow:
    """A row, with its keys as written."""

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    program: str
    text: str
    tag: Tag
    words: str = ""
    valued: str = ""
    arguments: str = ""
    after: str = ""
    action: str = ""
    starts: bool = False
    detail: str = ""

    def fits(self, *names: str) -> bool:
        """Return whether one of the names is a program of this row."""
        return any(one.strip() in names for one in self.program.split("|"))


@cache
def shipped_rows() -> Mapping[str, Sequence[EffectRow]]:
    """Return the rows of `effects.toml` by program."""
    import tomllib  # noqa: PLC0415 (only when a command is explained)

    rows: dict[str, list[EffectRow]] = defaultdict(list)
    for written in tomllib.loads(_SHIPPED.read_text(encoding="utf-8"))["rows"]:
        row = EffectRow(**written)
        for program in row.program.split("|"):
            rows[program].append(row)
    return rows


def read_row(written: object) -> EffectRow:
    """Validate a row of the user's.

    Raises:
        pydantic.ValidationError: A key is missing, unknown or of the wrong type, or its value can't be used.
    """
    from pydantic import AfterValidator, TypeAdapter  # noqa: PLC0415 (only for rows of the user's)

    own: TypeAdapter[EffectRow] = TypeAdapter(Annotated[EffectRow, AfterValidator(_check_row)])
    return own.validate_json(json.dumps(written), strict=True)


def _check_row(row: EffectRow) -> EffectRow:
    """Refuse what no row can mean, and a pattern that may take long: Python's have no time limit."""
    if not row.program.strip("| ") or not row.text.strip():
        raise ValueError("program and text must not be empty")
    names = [name for sentence in (row.text, row.detail, row.action) for name in _names_in(sentence)]
    if len(row.arguments) > PATTERN_LIMIT:
        raise ValueError(f"arguments has more than {PATTERN_LIMIT} characters; write a shorter regular expression")
    from vibe_jupyter.permissions.regex_bounds import check_time  # noqa: PLC0415 (only for rows of the user's)

    try:
        pattern, _ = check_time(row.arguments, LONGEST + 1)
    except ValueError as error:
        raise ValueError(f"arguments can't be used: {error}") from None
    if beyond := [name for name in names if name.isdecimal() and not 1 <= int(name) <= pattern.groups]:
        raise ValueError(f"{{{beyond[0]}}} names a group that arguments doesn't have")
    return row


def _names_in(sentence: str) -> Iterator[str]:
    """Yield the names in a sentence.

    Raises:
        ValueError: The sentence can't be shown as it is written.
    """
    if hidden := _HIDDEN.search(sentence):
        raise ValueError(
            "text, detail and action must be one line without control characters; "
            f"remove the character U+{ord(hidden[0]):04X}"
        )
    for braces in _BRACES.findall(sentence):
        blank = BLANK.fullmatch(braces)
        if blank is None or not (blank[1] in NAMES or blank[1].isdecimal()):
            raise ValueError(f"{braces} is not a known placeholder; remove it")
        yield blank[1]
