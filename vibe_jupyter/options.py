"""The options of a prompt: their names, how they are parsed, and the help of them."""

import hashlib
import json
from typing import Final, NamedTuple

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.lazy_patterns import lazy_pattern

STOP_CELL = lazy_pattern(r"\s*%vibe\s+stop\s*")
"""A whole cell that only asks for the end of the run; noticed while another cell's run is open."""

OPTION_NAMES = ("--model", "--agent", "--max-turns", "--max-price", "--yes", "--keep", "--no-keep", "--keep-going")
_OPTION = lazy_pattern(r"""(?P<name>--[^\s=]+)(?:=|\s+|$)(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>\S*))""")
"""An option and its value, which may stand in quotes."""
_FLAG = lazy_pattern(r"--(?P<name>keep-going|keep|no-keep)(?:\s+|$)")
"""An option without a value."""
_KEY_LENGTH = 32
"""Hexadecimal digits of the key of a prompt."""
MOST_TURNS: Final = 200
"""Requests to the model that a run may be allowed; `agent/limits.py` has no more."""
TOUR = "tour"
"""Name of the scripted demonstration among the models."""

SERVER_ACTIONS = ("accept", "add", "log", "off", "on", "remove", "restart", "serve", "tools")
"""What may follow `%vibe mcp`."""

PROMPT_HELP = """\
%%vibe, %vibe PROMPT    the agent works on the cell below, or on the line
  --model NAME          this cell only: an alias, or NAME@URL for another server
  --agent NAME          this cell only: another agent, such as plan
  --max-turns N         stop before request N+1 (1-200, default 50)
  --yes=TOOL[,TOOL]     let these tools run without asking, in this cell only
  --keep-going          run the cells queued after this one even if it fails
@name, @path, @[4]      name a variable, file or cell; @server: what it offers
/skill, /server:prompt  begin a prompt with a skill, or a prompt of a server"""
"""How a prompt is written: the beginning of the page of `%vibe help`."""
RARE_OPTIONS_HELP = """\
  --keep                show the answer the cell has while its prompt is unchanged
  --no-keep             ask the model again, also where keep_answers is set
  --max-price DOLLARS   stop once the run has cost more (0 for no limit, default 2)"""
"""Options that only `%vibe help all` has."""
SETTINGS_HELP = 'Settings: ~/.vibe/config.toml. From Python: vibe_jupyter.ask("prompt").'
"""The end of that page."""


class Options(NamedTuple):
    """What was given on the magic's line."""

    model: str | None = None
    """None for the chosen one."""
    agent: str | None = None
    """None for the session's."""
    max_turns: int | None = None
    """None for the configured limit."""
    max_price: float | None = None
    """US dollars, 0 for no limit; None for the configured limit."""
    allowed: frozenset[str] = frozenset()
    keep_going: bool = False
    """Whether the cells behind this one run also when the run fails."""
    keep: bool | None = False
    """Whether an unchanged prompt shows the answer that its cell has; None for what the settings say."""

    def key(self, prompt: str) -> str:
        """What is the same as long as the prompt is: its text, and the agent and model that its own line names."""
        said = json.dumps([prompt.strip(), self.agent, self.model])
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_LENGTH]


def parse_line(line: str) -> tuple[Options, str]:
    """Split the magic's line into options and the words after them.

    Raises:
        ConfigError: an unknown option, or a value that does not fit; names the options there are.
    """
    values: dict[str, str] = {}
    rest, flags = line.strip(), set[str]()
    while rest.startswith("--"):
        if flag := _FLAG.match(rest):
            rest = rest[flag.end() :]
            flags.add(flag["name"])
            continue
        found = _OPTION.match(rest)
        name = found["name"] if found else rest.split()[0]
        if found is None or name not in OPTION_NAMES:
            raise ConfigError(f"There is no option {name!r}. The options are: {', '.join(OPTION_NAMES)}.")
        value = next(filter(None, found.group("double", "single", "plain")), "")
        if not value:
            raise ConfigError(f"The option {name} requires a value, such as {name}=…; see %vibe help.")
        values[name] = value
        rest = rest[found.end() :].lstrip()
    turns = values.get("--max-turns")
    if turns is not None and not (turns.isdecimal() and 1 <= int(turns) <= MOST_TURNS):
        raise ConfigError(f"--max-turns requires a whole number from 1 to {MOST_TURNS}, not {turns!r}.")
    return Options(
        max_price=parse_price(values.get("--max-price")),
        model=values.get("--model"),
        agent=values.get("--agent"),
        max_turns=None if turns is None else int(turns),
        allowed=frozenset(filter(None, values.get("--yes", "").split(","))),
        keep_going="keep-going" in flags,
        keep=False if "no-keep" in flags else True if "keep" in flags else None,
    ), rest


def whole_prompt(rest: str, cell: str) -> str:
    """The prompt of a `%%vibe` cell: the words behind the options on its line, and the lines below."""
    return (f"{rest}\n{cell}" if rest else cell).strip("\n")


def parse_price(text: str | None) -> float | None:
    """The most a run may cost, in US dollars; None where nothing was given.

    Raises:
        ConfigError: it is no amount.
    """
    if text is None:
        return None
    try:
        price = float(text)
    except ValueError:
        price = -1.0
    if not 0 <= price < float("inf"):
        raise ConfigError(f"--max-price requires an amount of US dollars, such as 0.5, not {text!r}.")
    return price
