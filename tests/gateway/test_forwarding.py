"""Requests that are sent on as they are."""

import asyncio
import json
from urllib.parse import urlsplit

import psutil

from vibe_jupyter.gateway.forwarding import Forwarder
from vibe_jupyter.llm.request import Model, Server
from vibe_jupyter.testing import ScriptedModel


def open_connections(url: str) -> set[int]:
    """Our ports of those to a server."""
    found = psutil.Process().net_connections("tcp")
    port = urlsplit(url).port
    return {one.laddr.port for one in found if one.status == "ESTABLISHED" and one.raddr and one.raddr.port == port}


async def test_an_answer_that_has_said_all_leaves_its_connection_to_the_next_request() -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "hello"}], "stream": True}).encode()
    forwarder, used = Forwarder(user_agent="test"), set[int]()
    with ScriptedModel(strict=False) as server:
        server.will_reply("one", "two", "three")
        for _ in range(3):
            answer = await forwarder.post(Model(Server("test", server.url), "scripted", "alias"), body)
            assert answer.status == 200
            async for piece in answer.pieces():
                if b"[DONE]" in piece:
                    forwarder.let_end(answer)
                    break
            answer.close()  # before anything else runs
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
            used |= open_connections(server.url)
        assert len(used) == len(open_connections(server.url)) == 1
        await forwarder.close()
