"""``/v1/files`` and the content of files."""

from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from vibe_jupyter.gateway.files import USER_DATA, FileObject
from vibe_jupyter.gateway.parts import GatewayParts
from vibe_jupyter.gateway.refusals import Refused
from vibe_jupyter.gateway.uploads import open_form

FILES: Final = "/v1/files"

_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["file", "purpose"],
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "purpose": {"type": "string", "enum": [USER_DATA]},
    },
}
_UPLOAD: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}
}


class FileList(BaseModel):
    """List of files, newest first."""

    object: str = "list"
    data: list[FileObject]
    has_more: bool = False


class DeletedFile(BaseModel):
    """Confirmation that a file was deleted."""

    id: str
    object: str = "file"
    deleted: bool = True


def file_routes(parts: GatewayParts) -> APIRouter:
    """Create the router for uploading, listing, downloading and deleting files."""
    router = APIRouter(tags=["files"])
    files = parts.files

    @router.post(FILES, response_model_exclude_none=True, openapi_extra=_UPLOAD)
    async def upload_file(request: Request) -> FileObject:  # pyright: ignore[reportUnusedFunction]
        """Upload a file. Requests can refer to it by its id for 30 minutes."""
        async with open_form(request, most_files=1) as form:
            if not form.files:
                raise Refused(422, "file: a file is needed", code="validation_error", param="file")
            if form.fields.get("purpose") != USER_DATA:
                raise Refused(422, f"purpose: only {USER_DATA} is taken", code="validation_error", param="purpose")
            return await files.add(form.files[0].filename or "", await form.files[0].read())

    @router.get(FILES, response_model_exclude_none=True)
    async def list_files() -> FileList:  # pyright: ignore[reportUnusedFunction]
        """List all files."""
        return FileList(data=await files.all())

    @router.get(FILES + "/{file_id}", response_model_exclude_none=True)
    async def file_metadata(file_id: str) -> FileObject:  # pyright: ignore[reportUnusedFunction]
        """Return a file's metadata."""
        return await files.find(file_id)

    @router.delete(FILES + "/{file_id}")
    async def delete_file(file_id: str) -> DeletedFile:  # pyright: ignore[reportUnusedFunction]
        """Delete a file."""
        await files.delete(file_id)
        return DeletedFile(id=file_id)

    @router.get(FILES + "/{file_id}/content", response_class=Response)
    @router.get("/v1/containers/{container_id}/files/{file_id}/content", response_class=Response)
    async def file_content(file_id: str) -> Response:  # pyright: ignore[reportUnusedFunction]
        """Return a file's content. Both addresses work, with any container id."""
        found = await files.find(file_id)
        headers = {
            "content-disposition": f"attachment; filename*=UTF-8''{quote(found.name, safe='')}",
            "x-content-type-options": "nosniff",
        }
        return Response(await files.body(found), media_type=found.mime_type, headers=headers)

    return router
