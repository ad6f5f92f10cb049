"""What may be said of one prompt, and of the current run."""

import re
from dataclasses import dataclass

STOP_CELL = re.compile(r"\s*%vibe\s+stop\s*")
"""A whole cell that only asks for the end of the run; noticed while another cell's run is open."""

OPTION_NAMES = ("--model", "--agent", "--max-turns", "--yes", "--keep-going")
AGENTS = ("default",)
"""Profiles that exist."""
TOUR = "tour"
"""Name of the scripted demonstration among the models."""

SERVER_ACTIONS = ("accept", "add", "log", "off", "on", "remove", "restart", "serve", "tools")
"""What may follow `%vibe mcp`."""

PROMPT_HELP = """\
%%vibe                  the cell below is the prompt; the agent works on it
%vibe PROMPT            the same in one line
  --model NAME          this cell only: an alias, or NAME@URL for another server
  --agent NAME          the agent's profile (default)
  --max-turns N         stop before request N+1 (1-200, default 50)
  --yes=TOOL[,TOOL]     let these tools run without asking, in this cell only
  --keep-going          run the cells queued after this one even if it fails
@name, @path            mention a variable, file or folder; Tab completes
@server:address         mention what an MCP server offers to read
%vibe /server:prompt    use a prompt of an MCP server; NAME=VALUE follow"""
"""How a prompt is written: the beginning of the page of `%vibe help`."""
SETTINGS_HELP = 'Settings: ~/.vibe/config.toml. From Python: vibe_jupyter.ask("prompt").'
"""The end of that page."""


@dataclass(frozen=True)
class Options:
    """What was given on the magic's line."""

    model: str | None = None
    """None for the chosen one."""
    agent: str = "default"
    max_turns: int | None = None
    """None for the configured limit."""
    allowed: frozenset[str] = frozenset()
    keep_going: bool = False
    """Whether the cells behind this one run also when the run fails."""
