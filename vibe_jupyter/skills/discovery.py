"""Skill discovery. Locations are searched in order, and the first skill of a name wins."""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.skills.frontmatter import ReadSkill, read_skill
from vibe_jupyter.skills.skill import FILE_NAME, Skill, SkillOrigin

SHIPPED: Final = Path(__file__).with_name("shipped")
LARGEST: Final = 1_048_576  # bytes of a SKILL.md
MOST_SKILLS: Final = 500  # per directory


class SkillFile(NamedTuple):
    """A SKILL.md and its content."""

    path: Path
    content: bytes
    origin: SkillOrigin


class FoundSkills(NamedTuple):
    """Skills of all locations."""

    skills: tuple[Skill, ...] = ()  # sorted by name
    problems: tuple[str, ...] = ()  # problems with files, and skills hidden by another of the same name
    replaced: tuple[str, ...] = ()  # sentences on shipped skills that are overridden by a user's skill


class SkillReader:
    """Skill parser that caches each file by its content."""

    def __init__(self) -> None:
        self._read: dict[SkillFile, ReadSkill | str] = {}

    def find(self, files: Iterable[SkillFile]) -> FoundSkills:
        """Return the skills in these files, plus shipped skills, which have the lowest precedence."""
        found: dict[str, Skill] = {}
        problems: list[str] = []
        kept = self._read
        self._read = {}
        for file in dict.fromkeys(files):
            read = self._read[file] = kept.get(file) or _read_file(file)
            if isinstance(read, str):
                problems.append(f"{file.path} {read}. The skill is left out.")
                continue
            problems += [f"{file.path} {warning}." for warning in read.warnings]
            first = found.setdefault(read.skill.name, read.skill)
            if first is not read.skill:
                problems.append(f"{file.path} is left out, since {first.path} is a skill {first.name} too.")
        replaced = [
            f"{found[skill.name].path} takes the place of the shipped skill {skill.name}, {skill.path}."
            for skill in shipped_skills()
            if skill.name in found
        ]
        skills = {skill.name: skill for skill in shipped_skills()} | found
        return FoundSkills(tuple(skills[name] for name in sorted(skills)), tuple(problems), tuple(replaced))


def skill_files(folder: Path, origin: SkillOrigin, problems: list[str]) -> Iterator[SkillFile]:
    """Yield the SKILL.md of each subdirectory that has one."""
    try:
        paths = sorted(one / FILE_NAME for one in folder.iterdir() if (one / FILE_NAME).is_file())
    except OSError as error:
        problems.append(f"{folder} cannot be read ({error.strerror}); its skills are left out.")
        return
    if len(paths) > MOST_SKILLS:
        problems.append(f"{folder} holds {len(paths):,} skills; the first {MOST_SKILLS} are taken.")
    for path in paths[:MOST_SKILLS]:
        try:
            with path.open("rb") as file:
                content = file.read(LARGEST + 1)
        except OSError as error:
            problems.append(f"{path} cannot be read ({error.strerror}). The skill is left out.")
            continue
        yield SkillFile(path, content, origin)


@cache
def shipped_skills() -> tuple[Skill, ...]:
    """Return the skills shipped with the package.

    Their frontmatter is two plain lines and parsed without YAML, since the first prompt loads them.
    """
    return tuple(_shipped_skill(folder / FILE_NAME) for folder in sorted(SHIPPED.iterdir()) if folder.is_dir())


def _shipped_skill(path: Path) -> Skill:
    _, header, body = path.read_text(encoding="utf-8").split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in header.splitlines())
    return Skill(fields["name"], fields["description"], path, body.strip(), "shipped")


def _read_file(file: SkillFile) -> ReadSkill | str:
    """Return the skill, or what is wrong with it."""
    if len(file.content) > LARGEST:
        return f"is larger than {LARGEST:,} bytes"
    try:
        return read_skill(file.content, file.path, file.origin)
    except ConfigError as error:
        return str(error)
