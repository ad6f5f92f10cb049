"""A skill, how prompts invoke it, and which tools it permits while in use."""

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from vibe_jupyter.lazy_patterns import lazy_pattern

FILE_NAME: Final = "SKILL.md"
TOOLS_FOLDER: Final = "tools"  # subdirectory of a skill with Python files that define tools

SkillOrigin = Literal["skill_paths", "project", "user", "shipped"]


class Skill(NamedTuple):
    """Contents of a SKILL.md."""

    name: str
    description: str
    path: Path  # of its SKILL.md
    body: str  # instructions after the frontmatter
    origin: SkillOrigin = "user"
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = MappingProxyType({})
    # Names and patterns of the only tools that may be called while the skill is in use; empty for all.
    allowed_tools: tuple[str, ...] = ()
    user_invocable: bool = True  # True if it is a slash command

    @property
    def folder(self) -> Path:
        """Directory of the skill's files."""
        return self.path.parent


class SkillsInUse(NamedTuple):
    """Skills used by one run so far. Each further skill can only restrict more."""

    skills: tuple[Skill, ...] = ()
    # Names of tools defined by each skill, which needn't be in its list.
    own_tools: Mapping[str, frozenset[str]] = MappingProxyType({})

    def having(self, skill: Skill, own_tools: Sequence[str]) -> "SkillsInUse":
        """Return a copy with another skill."""
        others = tuple(one for one in self.skills if one.name != skill.name)
        return SkillsInUse((*others, skill), {**self.own_tools, skill.name: frozenset(own_tools)})

    def why_barred(self, names: Sequence[str], others: Sequence[str]) -> str:
        """Return why a tool can't be called while these skills are in use, or "" if it can.

        Args:
            names: Names of the tool.
            others: Names of the tool in other products, accepted only in `allowed-tools`.
        """
        for skill in self.skills:
            is_own = not self.own_tools[skill.name].isdisjoint(names)
            if skill.allowed_tools and not is_own and not _is_listed(skill.allowed_tools, [*names, *others]):
                listed = ", ".join(skill.allowed_tools)
                return f"Not run: the skill {skill.name} is in use until this run ends, and allows only {listed}."
        return ""


def _is_listed(allowed: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether one of the names is allowed. Arguments in parentheses are ignored."""
    patterns = [entry.partition("(")[0].casefold() for entry in allowed]
    return any(fnmatch.fnmatchcase(name.casefold(), pattern) for pattern in patterns for name in names)


_CALL: Final = lazy_pattern(r"\s*/(?=[A-Za-z0-9])(?P<words>[^\n]*)")
_MOST_WORDS: Final = 32  # words in a name: the longest possible name has no more


def called_skill(prompt: str, skills: Iterable[Skill]) -> Skill | None:
    """Return the skill that the prompt starts with, preferring longer names; None for plain text."""
    call = _CALL.match(prompt)
    if call is None:
        return None
    by_name = {skill.name: skill for skill in skills if skill.user_invocable}
    words = call["words"].split()[:_MOST_WORDS]
    for count in range(len(words), 0, -1):
        skill = by_name.get("-".join(words[:count]).casefold())
        if skill is not None:
            return skill
    return None
