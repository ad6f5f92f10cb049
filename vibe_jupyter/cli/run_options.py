"""Options that `vibe-jupyter run` has in common with `ask` and `verify`."""

import argparse

from vibe_jupyter.options import MOST_TURNS


def add_run_options(parser: argparse.ArgumentParser, *, tools: str) -> None:
    """What `ask` and `run` have in common.

    Args:
        parser: of one of them.
        tools: names that may be allowed there, for the help.
    """
    parser.add_argument("--agent", metavar="NAME", help="the agent's profile")
    parser.add_argument("--model", metavar="NAME", help="an alias, or NAME@URL for another server")
    parser.add_argument("--max-turns", type=_parse_turns, metavar="N", help=f"stop before request N+1 (1-{MOST_TURNS})")
    parser.add_argument("--max-price", metavar="DOLLARS", help="stop once a run has cost more (0 for no limit)")
    parser.add_argument("--yes", default="", metavar="TOOLS", help=f"tools the agent may use without asking: {tools}")


def parse_seconds(text: str) -> float:
    """A time limit."""
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
