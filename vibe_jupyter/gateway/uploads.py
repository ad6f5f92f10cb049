"""Multipart forms with uploaded files."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from vibe_jupyter.gateway.refusals import Refused

MOST_FIELDS: Final = 16  # fields of a form, besides its files


class Form(NamedTuple):
    """A parsed form."""

    files: list[UploadFile]  # large ones are spooled to disk
    fields: dict[str, str]


@asynccontextmanager
async def open_form(request: Request, *, most_files: int) -> AsyncGenerator[Form]:
    """Parse the form of a request. Its files are closed on exit.

    Raises:
        Refused: it can't be parsed, or has too many parts.
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
