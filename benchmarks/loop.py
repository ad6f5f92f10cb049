"""What a run of many turns costs, and how it grows: the agent's loop beside one by hand with httpx, and two peers.

    PYTHONPATH=. python benchmarks/loop.py          # the first run installs the peers into `.matrix/`
    PYTHONPATH=. python benchmarks/loop.py --quick  # without them

The model calls a tool of a few characters in each turn. Ours saves the session (a journal, one fsync an event),
decides on each call and asks all middleware; the floor posts the growing list of messages with httpx, reads the stream
with `json`, and appends each message to a file with fsync. CPU time of the process without the model, which runs in one
of its own. The peers (`loop_peers.py`) are Mistral Vibe's loop and OpenAI's Agents SDK, each in a process and an
environment of its own, at the most turns alone.
"""

import argparse
import asyncio
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
from pydantic import BaseModel

from benchmarks.report import SMOKE, Row, report, size
from tests.app.vibe_packages import vibe_program
from tests.mcp.real_servers import is_ready, say_ready
from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.agent.limits import PriceLimit, RunLimit, StopRun, TimeLimit, TokenLimit
from vibe_jupyter.agent.loop import start_run
from vibe_jupyter.agent.middleware import AutoCompact, ContextWarning, LoopGuard, RunProgress
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.request import Model, Server
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.protocol import Headline, Preview, Resource, RunFinished, ToolResult
from vibe_jupyter.session.conversation import Conversation
from vibe_jupyter.session.journal import Journal
from vibe_jupyter.testing import ScriptedModel, answer, call, say
from vibe_jupyter.testing.requests import ModelRequest
from vibe_jupyter.testing.wire import Reply
from vibe_jupyter.tools.contract import StaticToolset, Tool, ToolContext

TURNS: Final = size((100, 200, 400), (2, 4))
ROUNDS: Final = size(5, 1)
RATIO_AIM: Final = 2.5
"""Times the floor's CPU at the most turns."""
SLOPE_AIM: Final = 1.25
"""Of CPU against turns, both as logarithms."""
WINDOW: Final = 1_000_000
"""Tokens; nothing is rewritten on the way."""
VIBE: Final = "2.18.4"
"""A release of Mistral Vibe whose loop is Python."""
AGENTS: Final = ("openai-agents==0.24.0",)
AGENTS_FOLDER: Final = Path(__file__).resolve().parents[1] / ".matrix" / "openai-agents"
INSTALL_TIME: Final = 900
PEER_TIME: Final = 900
"""Seconds; the second of one run, whose CPU grows with the square of its turns."""


class ManyTurns(RunLimit):
    """The limit of turns without its clamp, for more turns than a user's run may have."""

    def __init__(self, turns: int) -> None:
        self._turns = turns

    def exceeded(self, progress: RunProgress) -> StopRun | None:
        return StopRun("turn_limit", "Enough.") if progress.turns >= self._turns else None


class LookArguments(BaseModel):
    at: int


class Look(Tool[LookArguments]):
    """A tool that only reads."""

    name = "look"
    description = "Looks at one thing."
    level = "always"
    arguments = LookArguments

    def headline(self, args: LookArguments) -> Headline:
        return Headline(verb="Looked", doing="Looking", asking="Look", target=str(args.at))

    def preview(self, args: LookArguments) -> Preview:
        return Preview(kind="text", text=str(args.at))

    def touches(self, args: LookArguments) -> Sequence[Resource]:
        return ()

    async def run(self, args: LookArguments, context: ToolContext) -> ToolResult:
        return ToolResult.text(f"thing {args.at} is fine")


def reply_to(request: ModelRequest) -> Reply:
    """A call, until as many turns are over as the prompt says."""
    (wanted,) = [int(word) for word in request.messages[1]["content"].split() if word.isdecimal()]
    done = sum(message["role"] == "tool" for message in request.messages)
    return answer("I look.", [call("look", at=done)]) if done < wanted else say("Done.")


def serve() -> None:
    """The model, in a process of its own, until its input ends."""
    with ScriptedModel(reply_to, strict=False) as model:
        print(model.url, flush=True)
        sys.stdin.read()


async def run_ours(url: str, turns: int, folder: Path) -> None:
    """A run of the agent with its session saved."""
    permissions = Permissions(Workspace(folder))
    client = LLMClient(user_agent="vibe-jupyter/benchmark")
    journal = Journal.create(folder / "session", session_id="benchmark")
    agent = Agent(
        name="default",
        model=Model(
            server=Server(name="scripted", api_base=url),
            name="scripted",
            alias="scripted",
            input_price=1.0,
            output_price=1.0,
            context_window=WINDOW,
        ),
        client=client,
        tools=StaticToolset([Look()]),
        permissions=permissions,
        middleware=(
            ManyTurns(turns + 2),
            PriceLimit(1_000.0),
            TokenLimit(10**9),
            TimeLimit(3_600.0),
            LoopGuard(),
            ContextWarning(),
            AutoCompact(),
        ),
        instructions="You are measured.",
        redactor=Redactor(),
    )
    ended = ""
    async for event in start_run(agent, Conversation(journal), f"Take {turns} turns", terms=RunTerms()):
        if isinstance(event, RunFinished):
            ended = f"{event.reason} after {event.turns}"
    journal.close()
    await client.close()
    if ended != f"stop after {turns + 1}":
        raise RuntimeError(f"The run ended otherwise: {ended}.")


async def run_floor(url: str, turns: int, folder: Path) -> None:
    """The same by hand."""
    schema = {"type": "object", "properties": {"at": {"type": "integer"}}, "required": ["at"]}
    tools = [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": schema}}]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are measured."},
        {"role": "user", "content": f"Take {turns} turns"},
    ]
    log = os.open(folder / "log.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def keep(message: dict[str, Any]) -> None:
        messages.append(message)
        os.write(log, json.dumps(message).encode() + b"\n")
        os.fsync(log)

    async with httpx.AsyncClient(timeout=60.0) as client:
        while True:
            message = await _ask(client, url, messages, tools)
            keep(message)
            if not message.get("tool_calls"):
                break
            for one in message["tool_calls"]:
                at = json.loads(one["function"]["arguments"])["at"]
                keep({"role": "tool", "tool_call_id": one["id"], "content": f"thing {at} is fine"})
    os.close(log)


async def _ask(
    client: httpx.AsyncClient, url: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]]
) -> dict[str, Any]:
    body = {"model": "scripted", "messages": messages, "tools": tools, "stream": True}
    text, calls = "", dict[int, dict[str, Any]]()
    async with client.stream("POST", f"{url}/chat/completions", json=body) as response:
        async for line in response.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            for choice in json.loads(line[6:]).get("choices", ()):
                delta = choice.get("delta", {})
                text += delta.get("content") or ""
                for piece in delta.get("tool_calls", ()):
                    kept = calls.setdefault(piece["index"], {"id": "", "type": "function", "function": {}})
                    kept["id"] = piece.get("id") or kept["id"]
                    for key, value in piece.get("function", {}).items():
                        kept["function"][key] = kept["function"].get(key, "") + value
    message: dict[str, Any] = {"role": "assistant", "content": text}
    return {**message, "tool_calls": [calls[place] for place in sorted(calls)]} if calls else message


Run = Callable[[str, int, Path], Coroutine[Any, Any, None]]


def cpu_of(run: Run, url: str, turns: int) -> float:
    """Seconds of CPU of one run."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        asyncio.run(run(url, turns, Path(folder)))
        return time.process_time() - began


def measure(url: str) -> tuple[list[float], list[float]]:
    """CPU of the loop by hand and of ours, by turns; the least of some rounds.

    All take turns in a round, so that other work on the machine does not fall on one of them alone.
    """
    least = {(run, turns): math.inf for run in (run_floor, run_ours) for turns in TURNS}
    for _ in range(ROUNDS):
        for run, turns in least:
            least[run, turns] = min(least[run, turns], cpu_of(run, url, turns))
    return [least[run_floor, turns] for turns in TURNS], [least[run_ours, turns] for turns in TURNS]


def agents_python() -> Path:
    """An interpreter that has OpenAI's Agents SDK, installed at the first use."""
    if not is_ready(AGENTS_FOLDER, AGENTS):
        subprocess.run([sys.executable, "-m", "venv", "--clear", AGENTS_FOLDER], check=True, timeout=INSTALL_TIME)
        pip = [AGENTS_FOLDER / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *AGENTS], check=True, capture_output=True, timeout=INSTALL_TIME)
        say_ready(AGENTS_FOLDER, AGENTS)
    return AGENTS_FOLDER / "bin" / "python"


PEERS: Final[dict[str, tuple[str, Callable[[], Path]]]] = {
    "vibe": (f"Mistral Vibe {VIBE}", lambda: vibe_program(VIBE) / "python"),
    "agents": ("OpenAI Agents SDK", agents_python),
}


def print_peers(url: str, turns: int, floor: float, ours: float) -> None:
    """A row for each, with one run; a peer that cannot be had here is named."""
    print(f"\n{turns} turns: {'':<7}      CPU   floor    ours")
    for peer, (name, python) in PEERS.items():
        try:
            program = python()
        except (LookupError, subprocess.SubprocessError) as error:
            print(f"{name}: not to be had here ({error})")
            continue
        script = Path(__file__).with_name("loop_peers.py")
        with tempfile.TemporaryDirectory() as folder:
            command = [str(program), str(script), peer, url, str(turns), folder]
            told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PEER_TIME).stdout
        seconds = float(told.split()[-1])
        print(f"{name:<18} {seconds:>5.1f} s {seconds / floor:>6.1f}x {seconds / ours:>6.1f}x")


def slope_of(turns: Sequence[int], seconds: Sequence[float]) -> float:
    """Of the straight line through the logarithms."""
    xs, ys = [math.log(one) for one in turns], [math.log(one) for one in seconds]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    over = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return over / sum((x - mean_x) ** 2 for x in xs)


def main() -> int:
    """Print the table; 1 where an aim was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="without the peers")
    chosen = parser.parse_args()
    if chosen.serve:
        serve()
        return 0
    with subprocess.Popen(
        [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as model:
        assert model.stdout is not None
        url = model.stdout.readline().strip()
        for warm_up in (run_floor, run_ours):
            cpu_of(warm_up, url, size(10, 1))
        floor, ours = measure(url)
        print(f"{'turns':>6} {'floor':>9} {'ours':>9} {'ratio':>6}")
        for turns, low, own in zip(TURNS, floor, ours, strict=True):
            print(f"{turns:>6} {low:>7.2f} s {own:>7.2f} s {own / low:>6.2f}")
        if not (chosen.quick or SMOKE):
            print_peers(url, TURNS[-1], floor[-1], ours[-1])
        model.communicate()
    ratio, slope = ours[-1] / floor[-1], slope_of(TURNS, ours)
    print(f"slope {slope:.2f} (floor {slope_of(TURNS, floor):.2f})")
    return report(
        [
            Row(f"CPU of {TURNS[-1]} turns beside the floor", ratio, RATIO_AIM, "x"),
            Row("slope of CPU against turns", slope, SLOPE_AIM),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
