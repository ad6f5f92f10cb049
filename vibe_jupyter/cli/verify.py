"""`vibe-jupyter verify`: run a notebook in a fresh kernel and compare its outputs."""

import argparse
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final
from xml.etree import ElementTree

from vibe_jupyter.cli.ends import interrupt_when_asked_to_end
from vibe_jupyter.cli.exit_codes import CELL_FAILED, DONE, INTERRUPTED
from vibe_jupyter.cli.run_options import parse_seconds
from vibe_jupyter.cli.terminal import print_readable
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.headless import NotebookRun
from vibe_jupyter.headless.document import HeadlessDocument
from vibe_jupyter.headless.file import NotebookFile
from vibe_jupyter.headless.fresh_run import FreshRun
from vibe_jupyter.headless.notebook_run import KernelProcess
from vibe_jupyter.notebook.verification import CellVerdict
from vibe_jupyter.protocol import SKIP_TAG

_EXIT_CODES: Final = """\
exit codes: 0 no cell failed or differs, 1 a cell failed or differs, 2 wrong usage, 130 interrupted.
Cells that give a prompt to the agent are not run. Cells do what they do: files that they write are written."""

_COUNTED: Final = MappingProxyType(
    {"same": "the same", "differs": "different", "error": "failed", "not compared": "not compared (no earlier run)"}
)
_NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Verdicts for cells that weren't run.
_NOT_RUN: Final = MappingProxyType(
    {"prompt": "not run: it is a prompt", "skipped": f"skipped, as its tag {SKIP_TAG} says"}
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vibe-jupyter verify`."""
    parser.epilog = _EXIT_CODES
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--timeout", type=parse_seconds, metavar="S", help="seconds one cell may take")
    kernels = parser.add_mutually_exclusive_group()
    kernels.add_argument("--kernel", metavar="NAME", help="kernel to run it with (default: the notebook's own)")
    kernels.add_argument("--this-python", action="store_true", help="run it with the Python that runs this command")
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help="where it runs (default: beside the notebook)")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the result there as JUnit's XML too")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each cell instead")
    parser.set_defaults(command=_verify_chosen)


def _verify_chosen(chosen: argparse.Namespace) -> int:
    if chosen.folder is not None and not chosen.folder.is_dir():
        raise ConfigError(f"There is no folder {chosen.folder}.")
    if chosen.junit is not None:
        _check_writable(chosen.junit)
    interrupt_when_asked_to_end()
    file = NotebookFile(chosen.notebook)
    for repaired in file.repairs:
        print(f"Repaired for this run: {repaired}.", file=sys.stderr)
    named = chosen.kernel or file.kernel_name
    began = time.monotonic()
    verdicts: list[CellVerdict] = []
    try:
        place = (chosen.folder or file.path.parent).resolve() / file.path.name
        kernel = KernelProcess(None if chosen.this_python else named, place)
        try:
            document = HeadlessDocument(file.notebook)
            run = NotebookRun(document, kernel, path=file.path.name, say=_say_nothing)
            for verdict in FreshRun(document, run, chosen.timeout).verdicts():
                verdicts.append(verdict)
                print_readable(verdict.model_dump_json() if chosen.json else _verdict_line(verdict))
        finally:
            kernel.close()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    if chosen.junit is not None:
        _write_junit(chosen.junit, file.path.name, verdicts)
    if not chosen.json:
        print(_summary(verdicts, time.monotonic() - began))
    return CELL_FAILED if any(map(_fails, verdicts)) else DONE


def _check_writable(place: Path) -> None:
    """Check in advance that the JUnit report can be written.

    Raises:
        ConfigError: It couldn't be.
    """
    folder = os.path.dirname(os.path.realpath(place))
    if place.is_dir():
        raise ConfigError(f"{place} cannot be written: it is a folder. Name a file in it.")
    if not os.access(place if place.exists() else folder, os.W_OK):
        raise ConfigError(f"{place} cannot be written: there is no such folder, or you may not write in it.")


def _summary(verdicts: Sequence[CellVerdict], seconds: float) -> str:
    """Count the verdicts in a sentence."""
    kinds = Counter(one.kind for one in verdicts)
    not_run = sum(kinds[kind] for kind in _NOT_RUN)
    ran = len(verdicts) - not_run
    parts = [f"{kinds[kind]} {words}" for kind, words in _COUNTED.items() if kinds[kind]]
    if not_run:
        parts.append(f"{not_run} not run")
    cells = "1 cell" if ran == 1 else f"{ran} cells"
    return f"{cells} ran in a fresh kernel, {seconds:.1f} s: {', '.join(parts) or 'there was no code to run'}."


def _say_nothing(_words: str) -> None:
    """Ignore progress messages: a verification runs no agent."""


def _fails(verdict: CellVerdict) -> bool:
    return verdict.kind in ("differs", "error")


def _verdict_line(verdict: CellVerdict) -> str:
    kind = _NOT_RUN.get(verdict.kind, verdict.kind)
    return f"#{verdict.number} {verdict.cell}: {kind}{f': {verdict.words}' if verdict.words else ''}"


def _printable(words: str) -> str:
    """Replace characters that XML can't hold, such as those of colors."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", words)


def _write_junit(path: Path, name: str, verdicts: Sequence[CellVerdict]) -> None:
    """Write a JUnit report with a test case for each cell."""
    counts = {"tests": str(len(verdicts)), "failures": str(sum(map(_fails, verdicts)))}
    name = _printable(name)
    suite = ElementTree.Element("testsuite", {"name": name, **counts})
    for one in verdicts:
        case = ElementTree.SubElement(suite, "testcase", {"classname": name, "name": f"#{one.number} {one.cell}"})
        if _fails(one):
            ElementTree.SubElement(case, "failure", {"message": _printable(one.words), "type": one.kind})
        elif one.kind in _NOT_RUN:
            ElementTree.SubElement(case, "skipped")
    try:
        path.write_bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}.") from error
