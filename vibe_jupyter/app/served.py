"""What servers with models of their own have just now, for the list of `%vibe model`."""

import concurrent.futures
from collections.abc import Sequence
from typing import Final

import vibe_jupyter
from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm.agentic_models import models_of
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.request import Model
from vibe_jupyter.ui.text import one_line, readable

WAIT: Final = 2.0
"""Seconds all servers together get to answer."""


def served(models: Sequence[Model]) -> list[str]:
    """Lines for each mistral.rs server among the models; one that does not answer says so. Main thread."""
    by_server = {model.server.api_base: model for model in models if model.server.dialect == "mistralrs"}
    if not by_server:
        return []
    engine = Engine()
    try:
        futures = {host: engine.submit(_of(model)) for host, model in by_server.items()}
        concurrent.futures.wait(futures.values(), timeout=WAIT)
        lines: list[str] = []
        for host, future in futures.items():
            name = by_server[host].server.host
            lines += future.result() if future.done() else [f"  {name} does not answer just now."]
        return lines
    finally:
        engine.close()


async def _of(model: Model) -> list[str]:
    client = LLMClient(user_agent=f"vibe-jupyter/{vibe_jupyter.__version__}")
    try:
        found = await models_of(client, model)
    except ModelError:
        return [f"  {model.server.host} does not answer just now."]
    finally:
        await client.close()
    if not found:
        return [f"  {model.server.host} does not say which models it has."]
    said = [f"{name}: {words}" if words else name for name, words in found]
    return [f"  {model.server.host} has:", *(f"    {readable(one_line(line))}" for line in said)]
