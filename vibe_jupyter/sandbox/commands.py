"""Run shell commands in a sandbox where they can read the project and write only to a temporary folder."""

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
_GUARD: Final = (str(_OUR_PACKAGE.parent), "vibe_jupyter.sandbox.guard")  # program that supervises a confined command
_NETWORK: Final = "use the network"
_NAMED: Final = 4  # missing permissions listed on a card
_NO_ROOM: Final = re.compile(
    r"MemoryError|file size limit exceeded|cannot allocate memory|bad_alloc|file too large|out of memory", re.I
)


class SandboxedCommands:
    """Runner that creates a sandbox for each command."""

    def __init__(self, project: Path) -> None:
        self._project = project

    async def run(self, command: ShellCommand, progress: Callable[[str], None]) -> FinishedCommand | NotExplored:
        """Run a command to its end, or return which permissions it lacks in a sandbox.

        Raises:
            ToolError: It couldn't be started.
            asyncio.CancelledError: Interrupted. All its processes were ended.
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
        """Write the command's permissions to a file for the guard."""
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
    """Return what a command needs beyond the sandbox, worded for its card.

    Files that networking reads (resolver settings, certificates) and lists of system files mean little to users, so
    they are summarized as "files outside the project".
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
    """Return the result only if nothing was refused, because only then is it the same outside the sandbox."""
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
