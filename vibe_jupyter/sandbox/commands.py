"""Shell commands run where they can read the project and write to a folder of their own, and nothing else."""

import asyncio
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from vibe_jupyter.sandbox.availability import LEAST_MEMORY, memory_budget
from vibe_jupyter.sandbox.command_watch import CommandTerms
from vibe_jupyter.sandbox.guard import REPORT, TERMS
from vibe_jupyter.sandbox.readable import ProjectNotReadable, program_folders, readable_paths
from vibe_jupyter.tools.contract import NotExplored
from vibe_jupyter.tools.process import FinishedCommand, ShellCommand, run_command

_ALSO_READABLE: Final = (
    *(
        "/etc/ssl/openssl.cnf",
        "/etc/ssl/certs",
        "/etc/alternatives",
        "/etc/gitconfig",
        "/etc/locale.alias",
        "/etc/inputrc",
    ),
    *("/proc/filesystems", "/sys/kernel/mm/transparent_hugepage"),
)
_OUR_PACKAGE: Final = Path(__file__).parents[1]
_GUARD: Final = (str(_OUR_PACKAGE.parent), "vibe_jupyter.sandbox.guard")
"""The program that supervises a confined command."""
_NETWORK: Final = "use the network"
_NAMED: Final = 4
"""Things it wanted that are named."""
_NO_ROOM: Final = re.compile(
    r"MemoryError|file size limit exceeded|cannot allocate memory|bad_alloc|file too large|out of memory", re.I
)


class SandboxedCommands:
    """Makes a sandbox for each command."""

    def __init__(self, project: Path) -> None:
        self._project = project

    async def run(self, command: ShellCommand, progress: Callable[[str], None]) -> FinishedCommand | NotExplored:
        """Run it to its end, or say in one line what it wants that a sandbox does not give.

        Raises:
            ToolError: it could not be started.
            asyncio.CancelledError: interrupted; all its processes were ended.
        """
        memory = memory_budget()
        if memory < LEAST_MEMORY:
            return NotExplored("no sandbox can be made: too little memory is free")
        folder = Path(tempfile.mkdtemp(prefix="vibe-command-"))
        try:
            await asyncio.to_thread(self._prepare, command, folder, memory)
            done = await run_command(replace(command, argv=(str(folder),), supervisor=_GUARD), progress)
            return await asyncio.to_thread(_judged, done, folder / REPORT)
        except ProjectNotReadable as error:
            return NotExplored(f"no sandbox can be made: {error}")
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def _prepare(self, command: ShellCommand, folder: Path, memory: int) -> None:
        """Write down what it is confined to."""
        readable, listable, _ = readable_paths(self._project)
        own = os.path.join(os.path.realpath(folder), "own")
        os.mkdir(own)
        environment = {**command.environment, "TMPDIR": own, "XDG_CACHE_HOME": os.path.join(own, ".cache")}
        terms = CommandTerms(
            argv=list(command.argv),
            environment=environment,
            project=os.path.realpath(self._project),
            own=own,
            readable=[*readable, *_ALSO_READABLE],
            listable=[*listable, str(_OUR_PACKAGE.parent)],
            runnable=[*readable, *program_folders(environment.get("PATH", ""))],
            memory=memory,
        )
        (folder / TERMS).write_text(json.dumps(terms._asdict()), encoding="utf-8")


def wanted_words(refused: Sequence[str]) -> str:
    """Return what a command wants that a sandbox does not give, for its card.

    What the network takes (resolvers, certificates) and a list of files of the system say nothing to anybody: they
    are "files outside the project".
    """
    outside = [one for one in refused if one.startswith("read /") and not one.startswith("read /proc/")]
    network = [_NETWORK] if _NETWORK in refused else []
    if not network and len(outside) < 2:
        return f"in a sandbox it wanted to {_listed(refused)}"
    needs = [*["the network" for _ in network], *(["files outside the project"] if outside else [])]
    rest = [one for one in refused if one not in (*outside, *network)]
    also = f", and in a sandbox it wanted to {_listed(rest)}" if rest else ""
    return f"needs {' and '.join(needs)}{also}"


def _listed(deeds: Sequence[str]) -> str:
    more = f" and {len(deeds) - _NAMED} more" if len(deeds) > _NAMED else ""
    return f"{', '.join(deeds[:_NAMED])}{more}"


def _judged(done: FinishedCommand, report: Path) -> FinishedCommand | NotExplored:
    """What it gave stands only where it was refused nothing: then it gives the same outside."""
    if done.ended == "timeout":
        return done
    try:
        said: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return NotExplored("its sandbox broke off")
    if error := said.get("error"):
        return NotExplored(f"no sandbox can be made: {error}")
    if refused := said.get("refused"):
        return NotExplored(wanted_words(refused))
    if done.returncode != 0 and _NO_ROOM.search(f"{done.stdout}\n{done.stderr}"):
        return NotExplored("it needs more room than a sandbox has")
    return done
