"""Split off reasoning that a model wrote into its answer, between marks that its server doesn't parse."""

import re
from typing import Final, NamedTuple

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm.reply_formats import ThoughtMarks, reply_formats

_FENCE: Final = lazy_pattern(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_SENTENCE_ENDS: Final = frozenset(".!?…。！？")


class SplitText(NamedTuple):
    """A text split into reasoning and answer."""

    thoughts: str
    rest: str


def split_thoughts(text: str, prompt: str = "") -> SplitText:
    """Split off the reasoning at the beginning of an answer, complete or truncated.

    Args:
        text: The answer.
        prompt: The latest prompt, since an answer may be about such marks.
    """
    thoughts: list[str] = []
    rest = text
    while (begun := opening_mark(rest.lstrip(), prompt)) is not None:
        mark, length = begun
        rest = rest.lstrip()[length:]
        if mark is None:
            continue
        end, close = first_close(rest, mark)
        thoughts.append(rest[:end])
        rest = rest[end:] if close in mark.keep_close else rest[end + len(close) :]
    if not thoughts:
        headless = _headless_end(rest)
        if headless is not None:
            end, close = headless
            thoughts.append(rest[:end])
            rest = rest[end + len(close) :]
    said = "\n\n".join(filter(None, (one.strip() for one in thoughts)))
    return SplitText(said, rest.lstrip()) if rest is not text else SplitText("", text)


def opening_mark(text: str, prompt: str = "") -> tuple[ThoughtMarks | None, int] | None:
    """Return the marks of reasoning that begins here, with the length of the opening mark.

    Returns None if there is no mark. The marks are None for a special token that merely begins the answer.
    """
    formats = reply_formats()
    for begin in formats.begins:
        # a longer mark may begin the same way
        if text.startswith(begin) and not any(
            text.startswith(one) for mark in formats.thoughts for one in mark.open if len(one) > len(begin)
        ):
            return (None, len(begin)) if not text.startswith(f"{begin} to=") else None
    for mark in formats.thoughts:
        for begin in mark.open:
            follows = text[len(begin) : len(begin) + 1]
            if not text.startswith(begin) or (mark.open_then and not lazy_pattern(mark.open_then).match(follows)):
                continue
            # plain words such as `analysis` may occur in any prompt, so only bracketed marks are compared with it
            if begin in prompt and begin[0] in "<[◁" and follows != "\n":
                continue
            return mark, len(begin)
    return None


def first_close(text: str, mark: ThoughtMarks) -> tuple[int, str]:
    """Return the position and text of the first closing mark, or the end of the text and '' if there is none."""
    found = [(place, close) for close in mark.close if (place := text.find(close)) >= 0]
    return min(found, default=(len(text), ""))


def _headless_end(text: str) -> tuple[int, str] | None:
    """Find a closing mark whose opening mark was part of the chat template."""
    for mark in reply_formats().thoughts:
        if not mark.headless:
            continue
        place, close = first_close(text, mark)
        before, after = text[:place], text[place + len(close) :]
        if not close or any(one in before for one in mark.open) or len(_FENCE.findall(before)) % 2:
            continue
        line = before[before.rfind("\n") + 1 :]
        apart = not line.strip() or after[:1] in ("", "\n")
        between_sentences = before[-1:] in _SENTENCE_ENDS and not after[:1].isspace()
        if line.count("`") % 2 == 0 and (apart or between_sentences):
            return place, close
    return None
