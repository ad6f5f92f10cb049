"""Uploaded skills: validation, packing and unpacking."""

import io
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.gateway.refusals import Refused
from vibe_jupyter.skills.frontmatter import read_skill
from vibe_jupyter.skills.skill import FILE_NAME

MOST_FILES: Final = 512  # files of one skill
UNPACKED_LIMIT: Final = 64 * 1024 * 1024  # bytes of all files of one skill
SKILLS_FOLDER: Final = "skills"  # relative to a working folder
SKILLS_WORDS: Final = "Skills in the working folder; read the file of one before you do what it is for:"
_LEFT_OUT: Final = "__MACOSX"  # folder that macOS adds to zip files
_PACKED: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED: Final = 0x1


class GivenFile(NamedTuple):
    """A file of an upload."""

    path: str
    content: bytes


class GivenSkill(NamedTuple):
    """A skill that a request uses."""

    name: str
    description: str
    files: Sequence[GivenFile]

    @property
    def folder(self) -> str:
        """The folder that contains all its files."""
        return self.files[0].path.partition("/")[0]


class SkillBundle(NamedTuple):
    """A validated skill, packed for the store."""

    name: str
    description: str
    packed: bytes  # zip of its folder


def read_bundle(given: Sequence[GivenFile]) -> SkillBundle:
    """Validate an upload: a zip of a skill's folder, or the folder's files.

    Raises:
        Refused: it isn't a valid skill. The message says why.
    """
    is_packed = len(given) == 1 and zipfile.is_zipfile(io.BytesIO(given[0].content))
    files: dict[PurePosixPath, bytes] = {}
    for path, content in _unpacked(given[0].content) if is_packed else given:
        place = _place(path)
        if place in files:
            raise _invalid(f"{path!r} is there twice.")
        files[place] = content
    folders = {place.parts[0] for place in files}
    if len(folders) != 1:
        raise _invalid("A skill is the files of one folder, each named with it.")
    skill_file = PurePosixPath(*folders) / FILE_NAME
    if skill_file not in files:
        raise _invalid(f"There is no {FILE_NAME} in the folder.")
    try:
        skill = read_skill(files[skill_file], Path(skill_file)).skill
    except ConfigError as error:
        raise _invalid(f"{FILE_NAME} {error}.") from None
    return SkillBundle(skill.name, skill.description, _pack(files))


def skill_files(packed: bytes) -> list[GivenFile]:
    """Unpack a validated skill."""
    return list(_unpacked(packed))


def placed_skills(skills: Sequence[GivenSkill]) -> list[tuple[str, bytes]]:
    """Return the files of skills with their paths in a working folder."""
    return [(f"{SKILLS_FOLDER}/{one.path}", one.content) for skill in skills for one in skill.files]


def skill_messages(skills: Sequence[GivenSkill]) -> list[JsonValue]:
    """Return a system message that lists skills for the model."""
    lines = [f"- {one.name} ({SKILLS_FOLDER}/{one.folder}/{FILE_NAME}): {one.description}" for one in skills]
    return [{"role": "system", "content": "\n".join([SKILLS_WORDS, *lines])}]


def _unpacked(packed: bytes) -> Iterator[GivenFile]:
    """Yield the files of a zip, up to a limit of unpacked bytes."""
    left = UNPACKED_LIMIT
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            members = [one for one in archive.infolist() if not one.is_dir() and not one.filename.startswith(_LEFT_OUT)]
            if len(members) > MOST_FILES:
                raise _invalid(f"A skill has at most {MOST_FILES} files.")
            for one in members:
                if one.flag_bits & _ENCRYPTED or one.compress_type not in _PACKED:
                    raise _invalid(f"{one.filename!r} is encrypted, or packed in an unusual way.")
                if stat.S_ISLNK(one.external_attr >> 16):
                    raise _invalid(f"{one.filename!r} is a link.")
                with archive.open(one) as member:
                    content = member.read(left + 1)
                left -= len(content)
                if left < 0:
                    raise Refused(413, f"The skill has more than {UNPACKED_LIMIT:,} bytes.")
                yield GivenFile(one.filename, content)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise _invalid(f"The zip cannot be read: {error}") from None


def _place(path: str) -> PurePosixPath:
    parts = path.split("/")
    if len(parts) < 2 or not path.isprintable() or "\\" in path or any(part in ("", ".", "..") for part in parts):
        raise _invalid(f"{path!r} is no path of a file in a folder.")
    return PurePosixPath(path)


def _pack(files: dict[PurePosixPath, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, content in sorted(files.items()):
            archive.writestr(str(place), content)
    return packed.getvalue()


def _invalid(message: str) -> Refused:
    return Refused(422, message, code="invalid_skill", param="files")
