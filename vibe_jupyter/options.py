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

HELP = """\
%%vibe                  the cell below is the prompt; the agent works on it
%vibe PROMPT            the same in one line
  --model NAME          this cell only: an alias, or NAME@URL for another server
  --agent NAME          the agent's profile (default)
  --max-turns N         stop before request N+1 (1-200, default 50)
  --yes=TOOL[,TOOL]     let these tools run without asking, in this cell only
  --keep-going          run the cells queued behind this one even if it fails
@name, @path            mention a variable, file or folder; Tab completes
@server:address         mention what an MCP server offers to read
%vibe /server:prompt    use a prompt of an MCP server; NAME=VALUE follow
%vibe fix               fix the last error: its frames go with the prompt
%vibe model [NAME]      show the models, or choose one; `tour` needs no key
%vibe model check       does it answer, stream, call a tool, see images?
%vibe setup             choose a server, store its key, and try it
%vibe config [path]     every setting, and where it was set
%vibe mcp [tools]       MCP servers and their tools; `add`, `remove`, `restart`
%vibe mcp serve         let an external client use this notebook's tools
%vibe trust [forget]    this folder's settings and tools, and whether they count
%vibe permissions       what you allowed in advance; `revoke N` takes it back
%vibe status            model, server, agent, conversation, permissions
%vibe reset             begin a new conversation; your variables stay
%vibe stop              end the current run (also: Stop in its output, ■)
%vibe help              this page
Settings: ~/.vibe/config.toml. From Python: vibe_jupyter.ask("prompt")."""
"""The page of `%vibe help`."""


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
