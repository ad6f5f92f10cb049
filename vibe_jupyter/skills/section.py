"""Skill texts for the model: the list in its instructions, and a loaded skill."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

from vibe_jupyter.files.truncation import section
from vibe_jupyter.skills.skill import FILE_NAME, Skill

ANY_NAME: Final = "NAME"  # stands for each skill's name in the shared path of several
FILES_SHOWN: Final = 20  # files listed when a skill is loaded
_INTRODUCTION: Final = "Skills: where one fits, load it with skill before you begin, and follow it."


def skills_section(skills: Sequence[Skill]) -> str:
    """Return name, description and path of each skill, or "". Everything is escaped, since files may be untrusted."""
    if not skills:
        return ""
    places: dict[Path, list[Skill]] = {}
    for skill in skills:
        places.setdefault(_shared_path(skill), []).append(skill)
    lists = [_place_text(path if len(some) > 1 else some[0].path, some) for path, some in places.items()]
    return "\n".join([_INTRODUCTION, *lists])


def _shared_path(skill: Skill) -> Path:
    """Return the path with `ANY_NAME` for the directory, if that is named after the skill."""
    return skill.folder.with_name(ANY_NAME) / FILE_NAME if skill.folder.name == skill.name else skill.path


def _place_text(path: Path, skills: Iterable[Skill]) -> str:
    lines = (f"{escape(skill.name)}: {escape(' '.join(skill.description.split()))}" for skill in skills)
    return "\n".join([f'<skills path="{escape(str(path))}">', *lines, "</skills>"])


def loaded_text(skill: Skill, files: Sequence[str]) -> str:
    """Return a skill's instructions, as they appear in the conversation."""
    lines = [f"Skill {skill.name}, in {skill.folder}"]
    if files:
        more = f" and {len(files) - FILES_SHOWN:,} more" if len(files) > FILES_SHOWN else ""
        lines.append(f"Its files, to be read with skill(name, file): {', '.join(files[:FILES_SHOWN])}{more}")
    if skill.allowed_tools:
        lines.append(f"Until this run ends only these tools can be called: {', '.join(skill.allowed_tools)}")
    return "\n".join([*lines, section("skill", skill.body)])


def listing(skills: Sequence[Skill], hidden: Mapping[str, str], problems: Iterable[str]) -> str:
    """Return the output of `%vibe skills`.

    Args:
        skills: Available skills.
        hidden: Unavailable skills, with the reasons.
        problems: Problems with files.
    """
    names = {skill.path: f"/{skill.name}" if skill.user_invocable else skill.name for skill in skills}
    places = {skill.path: "" if skill.origin == "shipped" else f" ({skill.path})" for skill in skills}
    lines = [f"{names[skill.path]}: {skill.description}{places[skill.path]}" for skill in skills]
    lines += [f"{name}: not available, {reason}" for name, reason in hidden.items()]
    lines += [f"problem: {problem}" for problem in problems]
    return "\n".join(lines) or "There are no skills."
