"""Storage of uploaded skills and their versions."""

import secrets
import time
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from vibe_jupyter.gateway.refusals import Refused
from vibe_jupyter.gateway.skill_bundles import SkillBundle
from vibe_jupyter.gateway.store import Store

SKILL_SECONDS: Final = 30 * 24 * 3600.0  # lifetime of a version in seconds; each new one renews its skill's
MOST_SKILLS: Final = 256
MOST_VERSIONS: Final = 64  # per skill; beyond this the oldest are deleted

_SKILLS: Final = "skills"
_VERSIONS: Final = "skill-versions"
_ID_BYTES: Final = 16


class SkillObject(BaseModel):
    """Metadata of a skill."""

    model_config = ConfigDict(frozen=True)

    id: str
    object: Literal["skill"] = "skill"
    name: str  # of the latest version, like the description
    description: str
    created_at: int  # Unix seconds
    default_version: str  # the latest
    latest_version: str


class SkillVersion(BaseModel):
    """Version of a skill."""

    model_config = ConfigDict(frozen=True)

    id: str
    object: Literal["skill.version"] = "skill.version"
    skill_id: str
    version: str  # a number from 1
    name: str
    description: str
    created_at: int


class SkillStore:
    """Skills of one token."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._owner = owner

    async def add(self, bundle: SkillBundle) -> SkillObject:
        """Store a new skill with its first version.

        Raises:
            Refused: there are too many skills.
        """
        if len(await self._store.keys(_SKILLS, self._owner)) >= MOST_SKILLS:
            raise Refused(409, f"There are {MOST_SKILLS} skills; delete one first.", code="too_many_skills")
        return (await self._add_version(f"skill_{secrets.token_hex(_ID_BYTES)}", int(time.time()), 1, bundle))[0]

    async def add_version(self, skill_id: str, bundle: SkillBundle) -> SkillVersion:
        """Store another version of a skill.

        Raises:
            Refused: there is no such skill.
        """
        known = await self.find(skill_id)
        return (await self._add_version(skill_id, known.created_at, int(known.latest_version) + 1, bundle))[1]

    async def find(self, skill_id: str) -> SkillObject:
        """Return the metadata of a skill.

        Raises:
            Refused: there is no such skill.
        """
        kept = await self._store.get(_SKILLS, self._key(skill_id))
        if kept is None:
            raise Refused(404, "There is no such skill.", code="skill_not_found", param="skill_id")
        return SkillObject.model_validate_json(kept)

    async def packed(self, skill_id: str, version: str | None) -> tuple[SkillObject, bytes]:
        """Return the metadata of a skill and the zip of one version.

        Raises:
            Refused: there is no such skill or version.
        """
        known = await self.find(skill_id)
        number = known.latest_version if version in (None, "latest") else version
        packed = await self._store.get(_VERSIONS, f"{self._key(skill_id)}:{number}")
        if packed is None:
            raise Refused(404, f"The skill has no version {number}.", code="skill_not_found", param="version")
        return known, packed

    async def all(self) -> list[SkillObject]:
        """Return all skills, last changed first."""
        keys = await self._store.keys(_SKILLS, self._owner)
        kept = [await self._store.get(_SKILLS, key) for key in reversed(keys)]
        return [SkillObject.model_validate_json(one) for one in kept if one is not None]

    async def delete(self, skill_id: str) -> None:
        """Delete a skill and its versions.

        Raises:
            Refused: there is no such skill.
        """
        await self.find(skill_id)
        await self._store.take(_SKILLS, self._key(skill_id))
        for key in await self._store.keys(_VERSIONS, self._key(skill_id)):
            await self._store.take(_VERSIONS, key)

    async def _add_version(
        self, skill_id: str, created: int, number: int, bundle: SkillBundle
    ) -> tuple[SkillObject, SkillVersion]:
        """Store a version under the first free number, since another upload may run concurrently."""
        versions = self._key(skill_id)
        while not await self._store.add(_VERSIONS, f"{versions}:{number}", bundle.packed, seconds=SKILL_SECONDS):
            number += 1
        skill = SkillObject(
            id=skill_id,
            name=bundle.name,
            description=bundle.description,
            created_at=created,
            default_version=str(number),
            latest_version=str(number),
        )
        await self._store.put(_SKILLS, self._key(skill_id), skill.model_dump_json().encode(), seconds=SKILL_SECONDS)
        for key in (await self._store.keys(_VERSIONS, versions))[:-MOST_VERSIONS]:
            await self._store.take(_VERSIONS, key)
        version = SkillVersion(
            id=f"{skill_id}_v{number}",
            skill_id=skill_id,
            version=str(number),
            name=bundle.name,
            description=bundle.description,
            created_at=int(time.time()),
        )
        return skill, version

    def _key(self, skill_id: str) -> str:
        return f"{self._owner}:{skill_id}"
