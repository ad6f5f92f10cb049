"""Detection of misspelled `%vibe` commands, which would otherwise be sent as prompts and cost tokens."""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.near_names import near_names

_MISSPELT: Final = 0.82  # similarity ratio above which a word counts as a misspelled command
_SHORT: Final = 4  # letters; in words at least this long a single error counts whatever the ratio
# Names of our commands in other agents.
_ELSEWHERE: Final = MappingProxyType({"clear": "reset", "cancel": "stop", "login": "setup", "revert": "undo"})
_SESSION_ID = lazy_pattern(r"[0-9a-f]{8}")  # as listed by `%vibe sessions`


def meant_command(
    word: str, words: Sequence[str], commands: Mapping[str, Sequence[str]], calls_skill: Callable[[str], bool]
) -> str:
    """Return the command meant by a line, as written after `%vibe`, or "" if the line is a prompt.

    Args:
        word: The first word of the line.
        words: The other words.
        commands: The possible arguments of each command.
        calls_skill: Returns whether a line calls a skill.
    """
    bare = word.lower().removeprefix("/")
    name = bare if bare in commands else _ELSEWHERE.get(bare, "")
    if word.startswith("/"):
        is_meant = bool(name) and not calls_skill(" ".join([word, *words]))
    else:
        name = name or _like_command(bare, commands)
        is_meant = bool(name) and (not words or _may_follow(commands[name], words))
    return " ".join([name, *words]) if is_meant else ""


def is_word_behind(following: Collection[str], word: str) -> bool:
    """Return whether a word can only be an argument, because it is a number or a conversation's id."""
    is_number = "N" in following and word.rstrip(",").isdecimal()
    return is_number or ("ID" in following and _SESSION_ID.fullmatch(word.rstrip(",")) is not None)


def _may_follow(following: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether the command accepts these arguments."""
    takes_any = any(word.isupper() and word != "N" for word in following)
    return words[0] in following or is_word_behind(following, words[0]) or (takes_any and len(words) == 1)


def _like_command(word: str, commands: Collection[str]) -> str:
    """Return the command that a word misspells, for example by transposed letters, or ""."""
    near = [name for name in commands if sorted(name) == sorted(word) or _is_one_off(word, name)]
    return next(iter(near or near_names(word, commands, likeness=_MISSPELT)), "")


def _is_one_off(word: str, name: str) -> bool:
    """Return whether the words differ by one letter that is replaced, missing or added."""
    if min(len(word), len(name)) < _SHORT:
        return False
    differ = (at for at, (one, other) in enumerate(zip(word, name, strict=False)) if one != other)
    same = next(differ, min(len(word), len(name)))
    word, name = word[same:], name[same:]
    return word[1:] == name[1:] or word[1:] == name or word == name[1:]
