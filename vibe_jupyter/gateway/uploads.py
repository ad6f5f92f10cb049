"""Forms with files, as they come in."""

from typing import Final

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from vibe_jupyter.gateway.refusals import Refused

MOST_FIELDS: Final = 16


async def read_form(request: Request, *, most_files: int) -> tuple[list[UploadFile], dict[str, str]]:
    """The files of a form, and its other fields. Files lie on disk where they are large; the request closes them.

    Raises:
        Refused: it is no form, or has too many parts.
    """
    try:
        form = await request.form(max_files=most_files, max_fields=MOST_FIELDS)
    except HTTPException as error:
        raise Refused(400, f"The form cannot be read: {error.detail}", code="invalid_form") from None
    files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
    return files, {name: value for name, value in form.multi_items() if isinstance(value, str)}
