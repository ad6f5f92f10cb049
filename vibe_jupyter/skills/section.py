"""What the model reads of skills: where they are in its instructions, and one that it loads."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from vibe_jupyter.files.truncation import section
from vibe_jupyter.skills.skill import FILE_NAME, Skill

ANY_NAME: Final = "NAME"
"""Stands for the name of each skill in the path of several."""
FILES_SHOWN: Final = 20
"""Files of a skill that are named when it is loaded."""
_INTRODUCTION: Final = "Skills: where one fits, load it with skill before you begin, and follow it."


def skills_section(skills: Sequence[Skill]) -> str:
    """Name, description and path of each; empty for no skills. All of it escaped: files of others say it."""
    if not skills:
        return ""
    places: dict[Path, list[Skill]] = {}
    for skill in skills:
        places.setdefault(_shared_path(skill), []).append(skill)
    lists = [_place_text(path if len(some) > 1 else some[0].path, some) for path, some in places.items()]
    return "\n".join([_INTRODUCTION, *lists])


def _shared_path(skill: Skill) -> Path:
    """With `ANY_NAME` in place of a folder that is called as its skill."""
    return skill.folder.with_name(ANY_NAME) / FILE_NAME if skill.folder.name == skill.name else skill.path


def _place_text(path: Path, skills: Iterable[Skill]) -> str:
    lines = (f"{escape(skill.name)}: {escape(' '.join(skill.description.split()))}" for skill in skills)
    return "\n".join([f'<skills path="{escape(str(path))}">', *lines, "</skills>"])


def loaded_text(skill: Skill, files: Sequence[str]) -> str:
    """A skill's instructions, as they stand in the conversation."""
    lines = [f"Skill {skill.name}, in {skill.folder}"]
    if files:
        more = f" and {len(files) - FILES_SHOWN:,} more" if len(files) > FILES_SHOWN else ""
        lines.append(f"Its files, to be read with skill(name, file): {', '.join(files[:FILES_SHOWN])}{more}")
    if skill.allowed_tools:
        lines.append(f"Until this run ends only these tools can be called: {', '.join(skill.allowed_tools)}")
    return "\n".join([*lines, section("skill", skill.body)])


def listing(skills: Sequence[Skill], hidden: Mapping[str, str], problems: Iterable[str]) -> str:
    """What `%vibe skills` prints.

    Args:
        skills: those that are available.
        hidden: the others, each with the reason.
        problems: what is wrong with files.
    """
    names = {skill.path: f"/{skill.name}" if skill.user_invocable else skill.name for skill in skills}
    places = {skill.path: "" if skill.origin == "shipped" else f" ({skill.path})" for skill in skills}
    lines = [f"{names[skill.path]}: {skill.description}{places[skill.path]}" for skill in skills]
    lines += [f"{name}: not available, {reason}" for name, reason in hidden.items()]
    lines += [f"problem: {problem}" for problem in problems]
    return "\n".join(lines) or "There are no skills."
