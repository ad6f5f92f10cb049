"""An answer in which no call could be ours: it passes byte for byte."""

from contextlib import aclosing
from typing import Final

from vibe_jupyter.errors import ModelError
from vibe_jupyter.gateway.forwarding import OpenAnswer
from vibe_jupyter.gateway.parts import GatewayParts
from vibe_jupyter.gateway.refusals import error_body, error_object, passed_headers, unreachable_status
from vibe_jupyter.gateway.wire import AnswerWire
from vibe_jupyter.gateway.writer import AnswerWriter
from vibe_jupyter.llm.growing_answer import is_stream
from vibe_jupyter.llm.request import Model

ERROR_BODY: Final = 1024 * 1024
"""Bytes of an error of the model server that are passed on."""


async def pass_through(parts: GatewayParts, model: Model, body: bytes, writer: AnswerWriter, wire: AnswerWire) -> None:
    """Send a body to the model server, and what it says to the client."""
    try:
        answer = await parts.forwarder.post(model, body)
    except ModelError as failure:
        status = unreachable_status(failure)
        await wire.answer(status, error_body(status, str(failure)))
        return
    try:
        await _pass_answer(answer, wire)
    except ModelError as failure:
        if wire.streams:
            await wire.write(writer.fail(error_object(502, str(failure))), more=False)
        # A body that broke off is left without its end: the client sees that the connection breaks.
    finally:
        answer.close()


async def _pass_answer(answer: OpenAnswer, wire: AnswerWire) -> None:
    headers = passed_headers(answer.headers)
    if answer.status >= 300:
        await wire.answer(answer.status, await answer.whole(ERROR_BODY), headers)
        return
    await wire.begin(answer.status, headers, stream=is_stream(answer.headers.get("content-type", "")))
    async with aclosing(answer.pieces()) as pieces:
        async for piece in pieces:
            await wire.write(piece)
    await wire.write(b"", more=False)
