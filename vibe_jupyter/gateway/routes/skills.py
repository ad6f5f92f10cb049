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
    """List of skills, the most recently changed first."""

    object: str = "list"
    data: list[SkillObject]
    has_more: bool = False


class DeletedSkill(BaseModel):
    """Confirmation that a skill was deleted."""

    id: str
    object: str = "skill.deleted"
    deleted: bool = True


def skill_routes(parts: GatewayParts) -> APIRouter:
    """Create the router for uploading, listing and deleting skills."""
    router = APIRouter(tags=["skills"])
    skills = parts.skills

    @router.post(SKILLS, openapi_extra=_UPLOAD)
    async def upload_skill(request: Request) -> SkillObject:  # pyright: ignore[reportUnusedFunction]
        """Upload a skill: a zip of its folder, or the folder's files, each named with the folder."""
        return await skills.add(await _bundle(request))

    @router.get(SKILLS)
    async def list_skills() -> SkillList:  # pyright: ignore[reportUnusedFunction]
        """List all skills."""
        return SkillList(data=await skills.all())

    @router.get(SKILLS + "/{skill_id}")
    async def skill(skill_id: str) -> SkillObject:  # pyright: ignore[reportUnusedFunction]
        """Return a skill's metadata."""
        return await skills.find(skill_id)

    @router.delete(SKILLS + "/{skill_id}")
    async def delete_skill(skill_id: str) -> DeletedSkill:  # pyright: ignore[reportUnusedFunction]
        """Delete a skill with all its versions."""
        await skills.delete(skill_id)
        return DeletedSkill(id=skill_id)

    @router.post(SKILLS + "/{skill_id}/versions", openapi_extra=_UPLOAD)
    async def upload_version(skill_id: str, request: Request) -> SkillVersion:  # pyright: ignore[reportUnusedFunction]
        """Upload a new version of a skill."""
        await skills.find(skill_id)
        return await skills.add_version(skill_id, await _bundle(request))

    return router


async def _bundle(request: Request) -> SkillBundle:
    async with open_form(request, most_files=MOST_FILES) as form:
        given = [GivenFile(one.filename or "", await one.read()) for one in form.files]
    return await asyncio.to_thread(read_bundle, given)
