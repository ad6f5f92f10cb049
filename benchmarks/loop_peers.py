"""Two other agent loops with the same work as `loop.py`: `PYTHON loop_peers.py PEER URL TURNS FOLDER`.

PYTHON is that of an environment which has the peer; nothing of ours is imported. Prints the seconds of CPU from the
prompt to the last answer. `vibe` is the loop of Mistral Vibe 2.18.4 with its session saved, `agents` the Agents SDK of
OpenAI with its session in SQLite.
"""
# ruff: noqa: PLC0415
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportUntypedFunctionDecorator=false

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Final

CONFIG: Final = """
active_model = "scripted"
enable_telemetry = false
enable_update_checks = false
auto_compact_threshold = 0
[[providers]]
name = "scripted"
api_base = "{url}"
[[models]]
name = "scripted"
provider = "scripted"
alias = "scripted"
[session_logging]
save_dir = "{folder}"
"""
TOOL: Final = """
from collections.abc import AsyncGenerator
from pydantic import BaseModel
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext


class LookArgs(BaseModel):
    at: int


class LookResult(BaseModel):
    text: str


class Look(BaseTool[LookArgs, LookResult, BaseToolConfig, BaseToolState]):
    description = "Looks at one thing."

    async def run(self, args: LookArgs, ctx: InvokeContext | None = None) -> AsyncGenerator[LookResult, None]:
        yield LookResult(text=f"thing {args.at} is fine")
"""


async def run_vibe(url: str, turns: int, folder: Path) -> float:
    """Its own loop and tool, as its program sets them up, in a home folder of its own."""
    (folder / "tools").mkdir()
    (folder / "tools" / "look.py").write_text(TOOL, encoding="utf-8")
    (folder / "config.toml").write_text(CONFIG.format(url=url, folder=folder / "sessions"), encoding="utf-8")
    os.environ |= {"VIBE_HOME": str(folder), "MISTRAL_API_KEY": "none"}
    from vibe.core.agent_loop import AgentLoop
    from vibe.core.config import VibeConfig
    from vibe.core.config.harness_files import init_harness_files_manager

    init_harness_files_manager("user")
    loop = AgentLoop(VibeConfig.load(), agent_name="auto-approve", enable_streaming=True, headless=True)
    began = time.process_time()
    async for _ in loop.act(f"Take {turns} turns"):
        pass
    seconds = time.process_time() - began
    answered = sum(message.role == "tool" for message in loop.messages)
    await loop.aclose()
    _check_turns(answered, turns)
    return seconds


async def run_agents(url: str, turns: int, folder: Path) -> float:
    """Its runner, streamed, with its own kind of session."""
    from agents import Agent, OpenAIChatCompletionsModel, Runner, SQLiteSession, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

    @function_tool
    def look(at: int) -> str:
        """Looks at one thing."""
        return f"thing {at} is fine"

    model = OpenAIChatCompletionsModel("scripted", AsyncOpenAI(base_url=url, api_key="none"))
    agent = Agent(name="measured", instructions="You are measured.", model=model, tools=[look])
    session = SQLiteSession("benchmark", folder / "session.db")
    began = time.process_time()
    run = Runner.run_streamed(agent, f"Take {turns} turns", session=session, max_turns=turns + 2)
    async for _ in run.stream_events():
        pass
    seconds = time.process_time() - began
    _check_turns(sum(item.type == "tool_call_output_item" for item in run.new_items), turns)
    return seconds


def _check_turns(answered: int, turns: int) -> None:
    if answered != turns:
        raise RuntimeError(f"The run ended otherwise: {answered} calls were answered, not {turns}.")


PEERS: Final = {"vibe": run_vibe, "agents": run_agents}

if __name__ == "__main__":
    peer, url, turns, folder = sys.argv[1:]
    print(asyncio.run(PEERS[peer](url, int(turns), Path(folder))))
