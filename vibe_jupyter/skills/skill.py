"""One skill, how a prompt calls it, and which calls of tools it leaves while it is in use."""

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from vibe_jupyter.lazy_patterns import lazy_pattern

FILE_NAME: Final = "SKILL.md"
TOOLS_FOLDER: Final = "tools"
"""In a skill's folder: Python files with tools of its own."""

SkillOrigin = Literal["skill_paths", "project", "user", "shipped"]


class Skill(NamedTuple):
    """What a SKILL.md says."""

    name: str
    description: str
    path: Path
    """Of its SKILL.md."""
    body: str
    """The instructions behind the frontmatter."""
    origin: SkillOrigin = "user"
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = MappingProxyType({})
    allowed_tools: tuple[str, ...] = ()
    """Names and patterns of the only tools that may be called while it is in use; empty for all."""
    user_invocable: bool = True
    """Whether it is a slash command."""

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.path.parent


class SkillsInUse(NamedTuple):
    """The skills of one run so far. More of them never allow more."""

    skills: tuple[Skill, ...] = ()
    own_tools: Mapping[str, frozenset[str]] = MappingProxyType({})
    """Skill to the names of the tools it brings, which its list need not name."""

    def having(self, skill: Skill, own_tools: Sequence[str]) -> "SkillsInUse":
        """The same with one more."""
        others = tuple(one for one in self.skills if one.name != skill.name)
        return SkillsInUse((*others, skill), {**self.own_tools, skill.name: frozenset(own_tools)})

    def why_barred(self, names: Sequence[str], others: Sequence[str]) -> str:
        """Why a tool cannot be called while these are in use; empty where it can.

        Args:
            names: what the tool is called.
            others: what it is called elsewhere, in lists of `allowed-tools` alone.
        """
        for skill in self.skills:
            is_own = not self.own_tools[skill.name].isdisjoint(names)
            if skill.allowed_tools and not is_own and not _is_listed(skill.allowed_tools, [*names, *others]):
                listed = ", ".join(skill.allowed_tools)
                return f"Not run: the skill {skill.name} is in use until this run ends, and allows only {listed}."
        return ""


def _is_listed(allowed: Sequence[str], names: Sequence[str]) -> bool:
    """Whether one of the names is allowed; what stands in brackets behind a name is not looked at."""
    patterns = [entry.partition("(")[0].casefold() for entry in allowed]
    return any(fnmatch.fnmatchcase(name.casefold(), pattern) for pattern in patterns for name in names)


_CALL: Final = lazy_pattern(r"\s*/(?=[A-Za-z0-9])(?P<words>[^\n]*)")
_MOST_WORDS: Final = 32
"""Of a name: as many as its longest can have."""


def called_skill(prompt: str, skills: Iterable[Skill]) -> Skill | None:
    """The skill whose name the prompt begins with, the longest name first; None where it is plain text."""
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
