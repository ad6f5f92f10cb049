"""Forms with files, as they come in."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from vibe_jupyter.gateway.refusals import Refused

MOST_FIELDS: Final = 16
"""Of a form, beside its files."""


class Form(NamedTuple):
    """What was sent in one."""

    files: list[UploadFile]
    """Large ones lie on disk."""
    fields: dict[str, str]


@asynccontextmanager
async def open_form(request: Request, *, most_files: int) -> AsyncGenerator[Form]:
    """The form of a request, until it was used.

    Raises:
        Refused: it is no form, or has too many parts.
    """
    try:
        form = await request.form(max_files=most_files, max_fields=MOST_FIELDS)
    except HTTPException as error:
        raise Refused(400, f"The form cannot be read: {error.detail}", code="invalid_form") from None
    given = form.multi_items()
    try:
        yield Form(
            [value for _, value in given if isinstance(value, UploadFile)],
            {name: value for name, value in given if isinstance(value, str)},
        )
    finally:
        await form.close()
