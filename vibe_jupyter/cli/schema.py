"""`vibe-jupyter schema`: the JSON Schema of what `vibe-jupyter ask --output streaming` prints."""

import argparse
import json

from vibe_jupyter.protocol.schema import protocol_schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No words follow ``vibe-jupyter schema``."""
    parser.set_defaults(command=_print_schema)


def _print_schema(_chosen: argparse.Namespace) -> int:
    print(json.dumps(protocol_schema(), indent=2, ensure_ascii=False))
    return 0
