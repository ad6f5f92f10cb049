"""`vibe-jupyter`: run a notebook without a page, say what would be allowed or is missing, serve outside agents."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vibe_jupyter.errors import ConfigError, VibeError
from vibe_jupyter.version import __version__

__all__ = ["main"]

EXIT_CODES = """\
exit codes of run: 0 done, 1 a cell failed, 2 wrong usage or settings, 3 the agent did not finish,
130 interrupted. Whatever happens, the cells that ran are saved with their outputs."""
USAGE_EXIT = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    chosen = _argument_parser(words).parse_args(words)
    try:
        return chosen.command(chosen)
    except ConfigError as error:
        print(f"vibe-jupyter: {error}", file=sys.stderr)
        return USAGE_EXIT
    except VibeError as error:
        print(f"vibe-jupyter: {error}", file=sys.stderr)
        return 1


def _argument_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The whole command line; each command's own modules are imported only when it is the one that was given."""
    parser = argparse.ArgumentParser(
        prog="vibe-jupyter",
        description="An AI agent that lives in your notebook.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    _add_run(commands.add_parser("run", help="run a notebook's cells, its prompts included", epilog=EXIT_CODES))
    examine = commands.add_parser("doctor", help="check what JupyterLab and the kernel need, and say what to do")
    examine.add_argument("--kernel", default="python3", metavar="NAME", help="kernel to look at (default: python3)")
    examine.set_defaults(command=_run_doctor)
    permit = commands.add_parser("permission", help="say whether a command or path would be asked about, and why")
    if arguments[:1] == ["permission"]:
        from vibe_jupyter.cli.permission import add_permission

        add_permission(permit)
    outside = commands.add_parser("mcp", help="for an external client to start: the tools of the served notebook")
    outside.add_argument("--kernel", default="", metavar="ID", help="the notebook whose kernel id starts with this")
    outside.add_argument("--notebook", type=Path, metavar="PATH", help="the notebook in this file")
    outside.set_defaults(command=_serve_outside)
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument("-p", "--prompt", help="a prompt for the agent, run in a new %%%%vibe cell at the end")
    parser.add_argument(
        "--yes", default="", metavar="TOOLS", help="tools the agent may use without asking: run_code,edit_cell"
    )
    parser.add_argument(
        "--save-as", type=Path, metavar="FILE", help="write the result there and leave NOTEBOOK as it is"
    )
    parser.add_argument(
        "--timeout", type=_parse_seconds, metavar="S", help="seconds one cell may take (default: no limit)"
    )
    parser.add_argument("--kernel", metavar="NAME", help="kernel to run it with (default: the notebook's own)")
    parser.set_defaults(command=_run_notebook)


def _parse_seconds(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return value


def _run_doctor(chosen: argparse.Namespace) -> int:
    from vibe_jupyter.cli.doctor import print_report

    return print_report(chosen.kernel)


def _serve_outside(chosen: argparse.Namespace) -> int:
    from vibe_jupyter.cli.mcp import serve_stdio

    return serve_stdio(chosen.kernel, chosen.notebook)


def _run_notebook(chosen: argparse.Namespace) -> int:
    # With it jsonschema, which nbformat loads, would take a second to make a grammar of addresses; notebooks have none.
    sys.modules.setdefault("rfc3987_syntax", None)  # pyright: ignore[reportArgumentType]
    from vibe_jupyter.cli.run import RunOptions, run_notebook

    return run_notebook(
        RunOptions(
            notebook=chosen.notebook,
            prompt=chosen.prompt,
            allowed=chosen.yes,
            save_as=chosen.save_as,
            timeout=chosen.timeout,
            kernel=chosen.kernel,
        )
    )
