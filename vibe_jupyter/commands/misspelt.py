"""Which command was meant by a line of `%vibe` that is none, and would be a prompt that costs tokens."""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.near_names import near_names

_MISSPELT: Final = 0.82
"""Likeness, of 1, from which a word is taken for a misspelt command."""
_SHORT: Final = 4
"""Letters from which one that is wrong is a misspelling, whatever the likeness."""
_ELSEWHERE: Final = MappingProxyType({"clear": "reset", "cancel": "stop", "login": "setup", "revert": "undo"})
"""What other agents call our commands."""
_SESSION_ID = lazy_pattern(r"[0-9a-f]{8}")
"""As `%vibe sessions` lists it."""


def meant_command(
    word: str, words: Sequence[str], commands: Mapping[str, Sequence[str]], skills: Callable[[], Collection[str]]
) -> str:
    """The command that is meant, as it is written behind `%vibe`; empty where the line is a prompt.

    Args:
        word: the first of the line.
        words: those behind it.
        commands: by name, what may follow each.
        skills: gives the slash commands that there are.
    """
    bare = word.lower().removeprefix("/")
    name = bare if bare in commands else _ELSEWHERE.get(bare, "")
    if word.startswith("/"):
        is_meant = bool(name) and word not in skills()
    else:
        name = name or _like_command(bare, commands)
        is_meant = bool(name) and (not words or _may_follow(commands[name], words))
    return " ".join([name, *words]) if is_meant else ""


def is_word_behind(following: Collection[str], word: str) -> bool:
    """Whether no prompt has this word behind a command: a number, or the id of a conversation."""
    is_number = "N" in following and word.rstrip(",").isdecimal()
    return is_number or ("ID" in following and _SESSION_ID.fullmatch(word.rstrip(",")) is not None)


def _may_follow(following: Sequence[str], words: Sequence[str]) -> bool:
    """Whether the command would take these words."""
    takes_any = any(word.isupper() and word != "N" for word in following)
    return words[0] in following or is_word_behind(following, words[0]) or (takes_any and len(words) == 1)


def _like_command(word: str, commands: Collection[str]) -> str:
    """The command of which this is a misspelling, such as with two letters changed over; empty where it is a word."""
    near = [name for name in commands if sorted(name) == sorted(word) or _is_one_off(word, name)]
    return next(iter(near or near_names(word, commands, likeness=_MISSPELT)), "")


def _is_one_off(word: str, name: str) -> bool:
    """Whether one letter is another, lacks, or is too many."""
    if min(len(word), len(name)) < _SHORT:
        return False
    differ = (at for at, (one, other) in enumerate(zip(word, name, strict=False)) if one != other)
    same = next(differ, min(len(word), len(name)))
    word, name = word[same:], name[same:]
    return word[1:] == name[1:] or word[1:] == name or word == name[1:]
