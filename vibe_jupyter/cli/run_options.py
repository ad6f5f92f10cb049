"""Options shared by `vibe-jupyter run`, `ask` and `verify`."""

import argparse
import io
import sys
from typing import cast

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.options import MOST_TURNS, Options, parse_amount


def add_run_options(parser: argparse.ArgumentParser, *, tools: str) -> None:
    """Add the options shared by `ask` and `run`.

    Args:
        parser: Parser of one of the commands.
        tools: Examples of tool names for the help of `--yes`.
    """
    parser.add_argument("--agent", metavar="NAME", help="the agent's profile")
    parser.add_argument("--model", metavar="NAME", help="an alias, or NAME@URL for another server")
    parser.add_argument("--max-turns", type=_parse_turns, metavar="N", help=f"stop before request N+1 (1-{MOST_TURNS})")
    parser.add_argument("--max-price", metavar="DOLLARS", help="stop once a run has cost more (0 for no limit)")
    parser.add_argument("--max-tokens", metavar="N", help="stop once it has sent and received more (0 for no limit)")
    parser.add_argument("--max-seconds", metavar="S", help="stop once it has taken longer (0 for no limit)")
    parser.add_argument("--yes", default="", metavar="TOOLS", help=f"tools the agent may use without asking: {tools}")


def chosen_options(chosen: argparse.Namespace) -> Options:
    """Convert the arguments of `add_run_options` to prompt options.

    Raises:
        ConfigError: A limit isn't a valid amount.
    """
    tokens = parse_amount("--max-tokens", chosen.max_tokens)
    return Options(
        model=chosen.model,
        agent=chosen.agent,
        max_turns=chosen.max_turns,
        max_price=parse_amount("--max-price", chosen.max_price),
        max_tokens=None if tokens is None else int(tokens),
        max_seconds=parse_amount("--max-seconds", chosen.max_seconds),
        allowed=frozenset(one for one in chosen.yes.split(",") if one),
    )


def read_prompt(given: str, example: str) -> str:
    """Return the prompt of the command line, read from stdin if it is ``-``.

    Args:
        given: Its text.
        example: A command with a prompt.

    Raises:
        ConfigError: It is empty.
    """
    prompt = given
    if given == "-":
        stdin: object = sys.stdin
        if isinstance(stdin, io.TextIOWrapper):
            # A diff may quote a file of any encoding.
            cast("io.TextIOWrapper", stdin).reconfigure(errors="replace")
        prompt = sys.stdin.read()
    if not prompt.strip():
        raise ConfigError(f"The prompt is empty. Pass one: {example}.")
    return prompt.strip("\n")


def parse_seconds(text: str) -> float:
    """Parse a time limit. Raises `ArgumentTypeError` unless it is a positive number."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return value


def _parse_turns(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_TURNS:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to {MOST_TURNS}")
    return int(text)
