"""Rows that explain commands: those of `effects.toml`, which says what their keys mean, and the user's own.

Imports little, because settings with such rows are read before the first request.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, get_args

if TYPE_CHECKING:
    from vibe_jupyter.protocol import Risk  # `vibe-jupyter permission` starts without pydantic

_SHIPPED: Final = Path(__file__).with_name("effects.toml")
PATTERN_LIMIT: Final = 200  # characters of a user's pattern
REPEATS_LIMIT: Final = 2  # repetitions in it: each multiplies its time by the length of the arguments
BLANK: Final = re.compile(r"\{(\w+)(?:\|([^{}]*))?\}")  # a name in a sentence, with its default
NAMES: Final = frozenset(
    {"names", "first", "files", "sources", "target", "word", "host", "program", "command", "started"}
)
_LITERAL: Final = re.compile(r"\\.|\[\^?\]?[^\]]*\]", re.DOTALL)  # parts of a pattern in which * and + are characters
_REPEAT: Final = re.compile(r"[*+{]")

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
    names = [name for sentence in (row.text, row.action) for name, _ in BLANK.findall(sentence)]
    if unknown := [name for name in names if name not in NAMES and not name.isdecimal()]:
        raise ValueError(f"{{{unknown[0]}}} in text or action stands for nothing; leave it out")
    if not row.program.strip("| ") or not row.text.strip():
        raise ValueError("program and text must not be empty")
    try:
        groups = re.compile(row.arguments, re.MULTILINE).groups
    except re.error as error:
        raise ValueError(f"arguments is not a regular expression: {error}") from None
    if any(name.isdecimal() and int(name) > groups for name in names):
        raise ValueError("text or action names a group that arguments doesn't have")
    plain = _LITERAL.sub("x", row.arguments)
    long = len(row.arguments) > PATTERN_LIMIT or len(_REPEAT.findall(plain)) > REPEATS_LIMIT
    if long or re.search(r"\)[*+{]|\(\?(?:P=|#|\w*x)", row.arguments) or re.search(r"\\\d", row.arguments):
        raise ValueError(
            f"arguments may take long to compare; use at most {PATTERN_LIMIT} characters and {REPEATS_LIMIT} of * and "
            "+, none of them behind a group, and no reference to a group"
        )
    return row
