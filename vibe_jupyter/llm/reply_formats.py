"""Text formats of reasoning and calls used by models (`reply_formats.toml`), compiled on first use."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm.failures import BrokenAnswer
from vibe_jupyter.protocol import StopReason

Body = Literal["json", "arguments", "tags", "pairs", "python", "gemma", "elements"]

_FILE: Final = Path(__file__).with_suffix(".toml")
_WORD: Final = lazy_pattern(r"\w+")
_SIGNS: Final = lazy_pattern(r"[\W_]+")
_NAME: Final = r"[A-Za-z_][\w.:/-]{0,127}?"


class ThoughtMarks(NamedTuple):
    """Marks around reasoning in the text of an answer."""

    open: tuple[str, ...]
    close: tuple[str, ...]
    open_then: str = ""  # regular expression for the character after the opening mark, or '' for any
    keep_close: tuple[str, ...] = ()  # closing marks that also open a call and therefore stay in the text
    # true if a chat template may open the reasoning, so that the answer contains only the closing mark
    headless: bool = False


class CallFormat(NamedTuple):
    """A textual format of tool calls."""

    body: Body
    open: str  # regular expression up to the body, with @NAME and @TOOL for names
    close: str = ""  # regular expression after the body, or '' if nothing closes it
    mark: str = ""
    closed: bool = False  # True if the closing mark is mandatory
    whole: bool = False  # True if it counts as a call only when the answer contains nothing else
    fenced: bool = False

    def opening(self, tools: frozenset[str]) -> re.Pattern[str]:
        """Return the pattern of the opening mark for the offered tools."""
        return _opening(self.open, tools if "@TOOL" in self.open else frozenset[str]())

    def closing(self, name: str) -> re.Pattern[str]:
        """Return the pattern of the closing mark of a call."""
        return _compiled(self.close.replace("@NAME", re.escape(name)))


class ReplyFormats(NamedTuple):
    """Known text formats."""

    ends: tuple[str, ...]
    begins: tuple[str, ...]
    names_begin: tuple[str, ...]
    names_end: tuple[str, ...]
    around: tuple[str, ...]
    bare: tuple[str, ...]
    talk: tuple[str, ...]
    quotes: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    shows: tuple[str, ...]
    acts: tuple[str, ...]
    stops: Mapping[str, str]  # finish reasons in lower case, and the kind of each
    thoughts: tuple[ThoughtMarks, ...]
    calls: tuple[CallFormat, ...]


@cache
def reply_formats() -> ReplyFormats:
    """Load the formats from the TOML file."""
    import tomllib  # noqa: PLC0415 - few answers hold such text

    data = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return ReplyFormats(
        *(tuple(data[name]) for name in ("ends", "begins", "names_begin", "names_end", "around", "bare", "talk")),
        quotes=tuple((begin, end) for begin, end in data["quotes"]),
        names=tuple(data["names"]),
        shows=tuple(data["shows"]),
        acts=tuple(data["acts"]),
        stops={_letters_of(reason): kind for kind, reasons in data["stops"].items() for reason in reasons},
        thoughts=tuple(ThoughtMarks(**_fields(one)) for one in data["thought"]),
        calls=tuple(CallFormat(**_fields(one)) for one in data["call"]),
    )


def stop_reason_of(said: str) -> StopReason | None:
    """Map a server's finish reason to a `StopReason`, or to None if it says that the answer goes on.

    Raises:
        BrokenAnswer: The answer broke off, or the server failed to parse the model's call.
    """
    stops = reply_formats().stops
    # Some servers put another word before it (`content_filter: RECITATION`, `FinishReason.STOP`).
    pieces = [_letters_of(one) for one in (said, *reversed(_WORD.findall(said)))]
    kind = next((stops[one] for one in pieces if one in stops), "other")
    if kind == "unset":
        return None
    if kind == "broken":
        raise BrokenAnswer("truncated", f"it ended with {said}")
    if kind == "malformed":
        raise BrokenAnswer("empty", f"the server could not read the model's call ({said})")
    return cast("StopReason", kind)


def _letters_of(reason: str) -> str:
    return _SIGNS.sub("", reason).lower()


def _fields(entry: dict[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in entry.items() if name != "models"}
    return {
        name: tuple(cast("list[str]", value)) if isinstance(value, list) else value for name, value in known.items()
    }


@cache
def _opening(source: str, tools: frozenset[str]) -> re.Pattern[str]:
    names = "|".join(map(re.escape, sorted(tools))) or "(?!)"
    return re.compile(source.replace("@NAME", _NAME).replace("@TOOL", names))


_compiled = cache(re.compile)
