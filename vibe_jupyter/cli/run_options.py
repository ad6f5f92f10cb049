"""Options that `vibe-jupyter run` has in common with `ask` and `verify`."""

import argparse


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """What `ask` and `run` have in common."""
    parser.add_argument("--agent", metavar="NAME", help="the agent's profile")
    parser.add_argument("--model", metavar="NAME", help="an alias, or NAME@URL for another server")
    parser.add_argument("--max-turns", type=_parse_turns, metavar="N", help="stop before request N+1 (1-200)")
    parser.add_argument("--max-price", metavar="DOLLARS", help="stop once a run has cost more (0 for no limit)")
    parser.add_argument(
        "--yes", default="", metavar="TOOLS", help="tools the agent may use without asking: run_code,edit_cell"
    )


def parse_seconds(text: str) -> float:
    """A time limit."""
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return value


def _parse_turns(text: str) -> int:
    turns = int(text)
    if turns < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return turns
