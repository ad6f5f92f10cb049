"""Options of a prompt: names, parsing and help texts."""

import hashlib
import json
from typing import Final, NamedTuple

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.lazy_patterns import lazy_pattern

# A cell that only stops the run; detected in the queue while another cell's run is active.
STOP_CELL = lazy_pattern(r"\s*%vibe\s+stop\s*")

OPTION_NAMES = (
    *("--model", "--agent", "--max-turns", "--max-price", "--max-tokens", "--max-seconds"),
    *("--yes", "--keep", "--no-keep", "--keep-going"),
)
# Limits that 0 disables: a description of their value, and an example.
_AMOUNTS = {
    "--max-price": ("an amount of US dollars", "0.5"),
    "--max-tokens": ("a whole number of tokens", "200000"),
    "--max-seconds": ("a number of seconds", "600"),
}
# An option and its value, which may be quoted.
_OPTION = lazy_pattern(r"""(?P<name>--[^\s=]+)(?:=|\s+|$)(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>\S*))""")
_FLAG = lazy_pattern(r"--(?P<name>keep-going|keep|no-keep)(?:\s+|$)")  # an option without a value
_KEY_LENGTH = 32  # hexadecimal digits of a prompt's cache key
MOST_TURNS: Final = 200  # model requests of a run; the upper bound in `agent/limits.py`
TOUR = "tour"  # name of the scripted demo model

SERVER_ACTIONS = ("accept", "add", "log", "off", "on", "remove", "restart", "serve", "tools")  # actions of `%vibe mcp`

# First section of `%vibe help`: how to write a prompt.
PROMPT_HELP = """\
%%vibe, %vibe PROMPT    the agent works on the cell below, or on the line
  --model NAME          this cell only: an alias, or NAME@URL for another server
  --agent NAME          this cell only: another agent, such as plan
  --max-turns N         stop before request N+1 (1-200, default 50)
  --yes=TOOL[,TOOL]     let these tools run without asking, in this cell only
  --keep-going          run the cells queued after this one even if it fails
@name, @path, @[4]      name a variable, file or cell; @server: what it offers
/skill, /server:prompt  begin a prompt with a skill, or a prompt of a server"""
# Options listed by `%vibe help all` only.
RARE_OPTIONS_HELP = """\
  --keep                show the answer the cell has while its prompt is unchanged
  --no-keep             ask the model again, also where keep_answers is set
  --max-price DOLLARS   stop once the run has cost more (0 for no limit, default 2)
  --max-tokens N        stop once the run has sent and received more (0: no limit)
  --max-seconds S       stop once the run has taken longer (0 for no limit)"""
# Last section of `%vibe help`.
SETTINGS_HELP = 'Settings: ~/.vibe/config.toml. From Python: vibe_jupyter.ask("prompt").'


class Options(NamedTuple):
    """Options given on the magic's line."""

    model: str | None = None  # None for the selected model
    agent: str | None = None  # None for the session's agent
    max_turns: int | None = None  # None for the configured limit
    max_price: float | None = None  # US dollars, 0 for no limit; None for the configured limit
    max_tokens: int | None = None  # tokens sent and received, 0 for no limit; None for the configured limit
    max_seconds: float | None = None  # seconds, 0 for no limit; None for the configured limit
    allowed: frozenset[str] = frozenset()
    keep_going: bool = False  # True to run the queued cells even if this run fails
    keep: bool | None = False  # whether an unchanged prompt shows its cell's stored answer; None for the setting

    def key(self, prompt: str) -> str:
        """Return the prompt's cache key: a hash of its text, and of the agent and model on its line."""
        said = json.dumps([prompt.strip(), self.agent, self.model])
        return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_LENGTH]


def parse_line(line: str) -> tuple[Options, str]:
    """Split the magic's line into options and the remaining words.

    Raises:
        ConfigError: Unknown option, or an invalid value; the message lists the options.
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
    tokens = parse_amount("--max-tokens", values.get("--max-tokens"))
    return Options(
        max_price=parse_amount("--max-price", values.get("--max-price")),
        max_tokens=None if tokens is None else int(tokens),
        max_seconds=parse_amount("--max-seconds", values.get("--max-seconds")),
        model=values.get("--model"),
        agent=values.get("--agent"),
        max_turns=None if turns is None else int(turns),
        allowed=frozenset(filter(None, values.get("--yes", "").split(","))),
        keep_going="keep-going" in flags,
        keep=False if "no-keep" in flags else True if "keep" in flags else None,
    ), rest


def whole_prompt(rest: str, cell: str) -> str:
    """Return the prompt of a `%%vibe` cell: the words after the options on its line, and the lines below."""
    return (f"{rest}\n{cell}" if rest else cell).strip("\n")


def parse_amount(option: str, text: str | None) -> float | None:
    """Parse a run's limit in dollars, tokens or seconds, where 0 means no limit. Returns None if it wasn't given.

    Raises:
        ConfigError: It isn't a valid amount.
    """
    if text is None:
        return None
    kind, example = _AMOUNTS[option]
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    is_whole = amount == amount // 1
    if not 0 <= amount < float("inf") or (option == "--max-tokens" and not is_whole):
        raise ConfigError(f"{option} requires {kind}, such as {example}, not {text!r}.")
    return amount
