"""``/v1/skills``."""

import asyncio
from typing import Any, Final

from fastapi import APIRouter, Request
from pydantic import BaseModel

from vibe_jupyter.gateway.parts import GatewayParts
from vibe_jupyter.gateway.skill_bundles import MOST_FILES, GivenFile, SkillBundle, read_bundle
from vibe_jupyter.gateway.skills import SkillObject, SkillVersion
from vibe_jupyter.gateway.uploads import open_form

SKILLS: Final = "/v1/skills"

_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["files"],
    "properties": {"files": {"type": "array", "items": {"type": "string", "format": "binary"}}},
}
_UPLOAD: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}
}


class SkillList(BaseModel):
    """All of them, the one that changed last first."""

    object: str = "list"
    data: list[SkillObject]
    has_more: bool = False


class DeletedSkill(BaseModel):
    """A skill that there is no more."""

    id: str
    object: str = "skill.deleted"
    deleted: bool = True


def skill_routes(parts: GatewayParts) -> APIRouter:
    """Skills for requests."""
    router = APIRouter(tags=["skills"])
    skills = parts.skills

    @router.post(SKILLS, openapi_extra=_UPLOAD)
    async def upload_skill(request: Request) -> SkillObject:  # pyright: ignore[reportUnusedFunction]
        """Upload a skill: a zip of its folder, or the folder's files, each named with the folder."""
        return await skills.add(await _bundle(request))

    @router.get(SKILLS)
    async def list_skills() -> SkillList:  # pyright: ignore[reportUnusedFunction]
        """What is known of all skills."""
        return SkillList(data=await skills.all())

    @router.get(SKILLS + "/{skill_id}")
    async def skill(skill_id: str) -> SkillObject:  # pyright: ignore[reportUnusedFunction]
        """What is known of a skill."""
        return await skills.find(skill_id)

    @router.delete(SKILLS + "/{skill_id}")
    async def delete_skill(skill_id: str) -> DeletedSkill:  # pyright: ignore[reportUnusedFunction]
        """Forget a skill with its versions."""
        await skills.delete(skill_id)
        return DeletedSkill(id=skill_id)

    @router.post(SKILLS + "/{skill_id}/versions", openapi_extra=_UPLOAD)
    async def upload_version(skill_id: str, request: Request) -> SkillVersion:  # pyright: ignore[reportUnusedFunction]
        """Add a version of a skill, in the form of an upload."""
        await skills.find(skill_id)
        return await skills.add_version(skill_id, await _bundle(request))

    return router


async def _bundle(request: Request) -> SkillBundle:
    async with open_form(request, most_files=MOST_FILES) as form:
        given = [GivenFile(one.filename or "", await one.read()) for one in form.files]
    return await asyncio.to_thread(read_bundle, given)
