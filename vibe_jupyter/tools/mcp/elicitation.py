"""A server wants to know something from the person: its form or its page as a question card that names it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from vibe_jupyter.errors import ToolError
from vibe_jupyter.protocol import Answered, Choice, Question
from vibe_jupyter.tools.base import AskPerson
from vibe_jupyter.tools.mcp.form import MESSAGE_LIMIT, Form, FormError
from vibe_jupyter.tools.mcp.form_fields import FieldValue

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult

ROUNDS: Final = 5
"""How often a form is shown whose answers do not fit."""
ADDRESS_LIMIT: Final = 2_000
"""Characters of an address."""
OPENED: Final = "I opened it and am done"


async def elicit(server: str, params: "ElicitRequestParams", ask: AskPerson) -> "tuple[ElicitResult, str]":
    """The answer for the server, and a line for its log.

    Args:
        server: its name, shown on the card.
        params: what it asks.
        ask: puts questions to the person.
    """
    asker = f"the server {server}"
    try:
        if params.mode == "url":
            return await _page(params.message, params.url, asker, ask)
        return await _form(params.message, params.requested_schema, asker, ask)
    except ToolError as nobody:
        return _result("decline"), f"declined: {nobody}"


async def _form(message: str, schema: Mapping[str, Any], asker: str, ask: AskPerson) -> "tuple[ElicitResult, str]":
    try:
        form = Form(message, schema)
    except FormError as error:
        return _result("decline"), f"declined: {error}"
    for _ in range(ROUNDS):
        answers = await ask(form.questions(), asker)
        if answers is None or not form.take(answers):
            return _result("decline"), "declined by the person"
        if form.complete:
            return _result("accept", form.content), f"answered by the person: {', '.join(form.content) or 'agreed'}"
    return _result("cancel"), f"given up after {ROUNDS} answers that did not fit"


async def _page(message: str, address: str, asker: str, ask: AskPerson) -> "tuple[ElicitResult, str]":
    """Show where it leads; nothing is opened or fetched."""
    host = host_of(address)
    if not host:
        return _result("decline"), "declined: no http(s) address with a host"
    question = Question(
        question=f"{message[:MESSAGE_LIMIT]}\nIt asks you to open a page at {host}. Open it only if you know it.",
        header="Page",
        options=(Choice(label=OPENED), Choice(label="No")),
        link=address,
    )
    answers = await ask([question], asker)
    if not _says(answers, OPENED):
        return _result("decline"), f"the page at {host} was declined by the person"
    return _result("accept"), f"the page at {host} was accepted by the person"


def host_of(address: str) -> str:
    """The host that an address leads to, in the letters of the wire; empty where it leads to none."""
    if len(address) > ADDRESS_LIMIT or any(ord(letter) <= ord(" ") for letter in address):
        return ""
    try:
        parts = urlsplit(address)
        host = (parts.hostname or "").encode("idna").decode("ascii")
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return ""
    return f"{host}{port}" if parts.scheme in ("http", "https") and host else ""


def _says(answers: Sequence[Answered] | None, label: str) -> bool:
    return answers is not None and [one.selected for one in answers] == [(label,)]


def _result(
    action: Literal["accept", "decline", "cancel"], content: Mapping[str, FieldValue] | None = None
) -> "ElicitResult":
    from mcp_types import ElicitResult  # noqa: PLC0415 - it is loaded: a server of ours speaks

    return ElicitResult(action=action, content=None if content is None else dict(content))
