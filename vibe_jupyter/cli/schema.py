"""`vibe-jupyter schema`: print the JSON Schema of the events of `vibe-jupyter ask --output streaming`."""

import argparse
import json

from vibe_jupyter.protocol.schema import protocol_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Register `vibe-jupyter schema`, which takes no arguments."""
    parser.set_defaults(command=_print_schema)


def _print_schema(_chosen: argparse.Namespace) -> int:
    print(json.dumps(protocol_schema(), indent=2, ensure_ascii=False))
    return 0
