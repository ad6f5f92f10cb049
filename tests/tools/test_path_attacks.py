"""Paths that mean another place than they seem to, in whole runs: nothing protected or outside is read or written."""

import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.agent.conftest import Bench
from tests.tools.conftest import snapshot
from vibe_jupyter.files.access import FileAccess
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.protocol import ApprovalRequested, Reject
from vibe_jupyter.testing import ScriptedModel, answer, call, say
from vibe_jupyter.tools.contract import StaticToolset
from vibe_jupyter.tools.grep import GrepTool
from vibe_jupyter.tools.read_file import ReadFileTool
from vibe_jupyter.tools.search_replace import SearchReplaceTool
from vibe_jupyter.tools.write_file import WriteFileTool

SECRETS: Final = ("sesame-of-the-project", "sesame-outside", "sesame-of-home", "sesame-of-git")
MARKER: Final = "vibe-attack-path"
EDIT: Final = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE"
READS: Final = (
    ".env",
    "./.env",
    ".//.env",
    "src/../.env",
    "src/.././.env",
    "{P}/.env",
    "/{P}/.env",
    "{P}//.env",
    "{P}/./.env",
    "{P}/src/../.env",
    ".env/",
    ".env/.",
    ".ENV",
    ".Env",
    ".env.",
    " .env",
    ".env\u200b",
    ".e\u200bnv",
    "\uff0eenv",
    ".\u0435nv",
    ".env\u0000.txt",
    ".env",
    "%2eenv",
    "%2Eenv",
    ".\\.env",
    "src\\..\\.env",
    "~/.env",
    "~+/.env",
    "$PWD/.env",
    "{{P}}/.env",
    "file://{P}/.env",
    "file:.env",
    ".env::$DATA",
    "*env",
    ".e*",
    "{.env,README.md}",
    "link_env",
    "link_twice",
    "link_here/.env",
    "link_here/link_here/.env",
    "link_root{P}/.env",
    "/proc/self/cwd/.env",
    "/proc/self/root{P}/.env",
    "/proc/thread-self/cwd/.env",
    "/proc/thread-self/root{P}/.env",
    "/proc/{PID}/cwd/.env",
    "/proc/{PID}/root{P}/.env",
    "/proc/self/task/{PID}/cwd/.env",
    "/proc/self/fd/{FD}",
    "/dev/fd/{FD}",
    "/dev/fd/../fd/{FD}",
    "link_fd",
    "../outside/secret.txt",
    "src/../../outside/secret.txt",
    "link_out/secret.txt",
    "link_out/../outside/secret.txt",
    "{P}/../outside/secret.txt",
    "{P}-evil/../outside/secret.txt",
    "/proc/self/cwd/../outside/secret.txt",
    "/proc/self/environ",
    "/proc/{PID}/environ",
    "/proc/self/maps",
    "/proc/self/mem",
    "/proc/self/cmdline",
    "/proc/kcore",
    "/dev/stdin",
    "/dev/zero",
    "/dev/tty",
    "~/.ssh/id_rsa",
    "{H}/.ssh/id_rsa",
    "../home/.ssh/id_rsa",
    ".git/../.git/credentials",
    "result:../.env",
    "result:000000000000/../../.env",
    "notebook:.env",
    "https://127.0.0.1/.env",
    ".env\n",
    "src/../" * 400 + ".env",
    "src/../" * 100_000 + ".env",
)
WRITES: Final = (
    ".env",
    ".git/hooks/pre-commit",
    ".git/./hooks/pre-commit",
    "src/../.git/hooks/pre-commit",
    "link_git/hooks/pre-commit",
    "link_here/.git/hooks/pre-commit",
    "{P}/.git/config",
    ".git/hooks/../config",
    ".vibe/config.toml",
    "link_here/.vibe/config.toml",
    ".mcp.json",
    "conftest.py",
    "src/conftest.py",
    "sitecustomize.py",
    "usercustomize.py",
    "src/x.pth",
    ".envrc",
    ".bashrc",
    "Makefile",
    ".github/workflows/x.yml",
    ".vscode/settings.json",
    ".ipython/profile_default/startup/x.py",
    ".jupyter/jupyter_server_config.py",
    "AGENTS.md",
    "../outside/secret.txt",
    "../outside/new.txt",
    "link_out/secret.txt",
    "link_out/new.txt",
    "link_out_new",
    "src/../../outside/new.txt",
    "{P}-evil/new.txt",
    "/proc/self/cwd/.env",
    "/proc/self/cwd/../outside/new.txt",
    "/proc/self/root{P}/.env",
    "/proc/self/fd/{FD}",
    "/dev/fd/{FD}",
    "/proc/self/oom_score_adj",
    "/proc/self/comm",
    "/dev/shm/vibe-attack-path",
    "/tmp/vibe-attack-path",
    "~/.bashrc",
    "~/new.txt",
    "{H}/.ssh/authorized_keys",
    "link_dangling",
    "link_loop",
    "link_loop/x",
    ".env\u0000.txt",
    "link_env",
    "link_twice",
)


@dataclass
class World:
    """A project with the tools of an agent, and places that they must not reach."""

    bench: Bench
    parent: Path
    words: dict[str, str]

    def path(self, written: str) -> str:
        """Return the path with the names of this world in it."""
        for name, value in self.words.items():
            written = written.replace(f"{{{name}}}", value)
        return written

    def state(self) -> dict[str, object]:
        """Return all but what may be written in the project."""
        kept = snapshot(self.parent)
        marked = [str(folder / MARKER) for folder in (Path("/tmp"), Path("/dev/shm")) if (folder / MARKER).exists()]
        own = [Path(f"/proc/self/{name}").read_text() for name in ("comm", "oom_score_adj")]
        return {"kept": kept, "marked": marked, "own": own}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    project = tmp_path / "tree" / "proj"
    for name, text in {
        "proj/README.md": "a\n",
        "proj/src/main.py": "a\n",
        "proj/.env": f"a\nKEY={SECRETS[0]}\n",
        "proj/.git/config": "[core]\n",
        "proj/.git/credentials": f"https://x:{SECRETS[3]}@example.org\n",
        "proj/.git/hooks/README": "a\n",
        "proj/.vibe/config.toml": "\n",
        "proj-evil/a.txt": "a\n",
        "outside/secret.txt": f"a\n{SECRETS[1]}\n",
        "home/.ssh/id_rsa": f"a\n{SECRETS[2]}\n",
    }.items():
        place = tmp_path / "tree" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    for name, target in {
        "link_env": ".env",
        "link_twice": "link_env",
        "link_here": ".",
        "link_root": "/",
        "link_git": ".git",
        "link_out": "../outside",
        "link_out_new": "../outside/new.txt",
        "link_dangling": "../nowhere/x",
        "link_loop": "link_loop",
        "link_fd": "/proc/self/fd",
    }.items():
        (project / name).symlink_to(target)
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path / "tree" / "home"))
    yield project
    for folder in ("/tmp", "/dev/shm"):
        (Path(folder) / MARKER).unlink(missing_ok=True)


@pytest.fixture
async def world(project: Path, tmp_path: Path) -> AsyncIterator[World]:
    opened = os.open(project / ".env", os.O_RDWR)
    with ScriptedModel([]) as model:
        bench = Bench(tmp_path / "sessions", model)
        bench.permissions.workspace = workspace = Workspace(project)
        files = FileAccess(workspace)
        bench.tools = StaticToolset(
            [ReadFileTool(workspace), GrepTool(workspace), WriteFileTool(files), SearchReplaceTool(files)]
        )
        words = {"P": str(project), "H": str(tmp_path / "tree" / "home"), "PID": str(os.getpid()), "FD": str(opened)}
        yield World(bench, tmp_path / "tree", words)
        await bench.client.close()
        bench.journal.close()
    os.close(opened)


async def let(world: World, *calls: Any) -> None:
    """Have the model make calls; the person denies what asks."""
    world.bench.model.will_reply(answer(calls=list(calls)), say("Done."))

    def deny(request: ApprovalRequested) -> Reject:
        return Reject(approval_id=request.approval_id)

    await world.bench.ask("go", decide=deny)


@pytest.mark.attack("paths")
@pytest.mark.parametrize("written", READS)
async def test_no_path_reads_what_is_protected_or_outside(world: World, written: str) -> None:
    path = world.path(written)
    before = world.state()
    await let(
        world,
        call("read_file", path=path),
        call("grep", pattern="sesame", path=path),
        call("read_file", path=f"{path}/"),
    )
    sent = "\n".join(str(request.messages) for request in world.bench.model.requests)
    assert not [secret for secret in SECRETS if secret in sent]
    assert world.state() == before


@pytest.mark.attack("paths")
@pytest.mark.parametrize("written", WRITES)
async def test_a_permission_to_write_files_covers_no_path_that_is_protected_or_outside(
    world: World, written: str
) -> None:
    path = world.path(written)
    for tool in ("write_file", "search_replace"):
        world.bench.permissions.grant(tool)
    before = world.state()
    await let(
        world,
        call("write_file", path=path, content="x\n"),
        call("write_file", path=path, content="x\n", overwrite=True),
        call("search_replace", file_path=path, content=EDIT),
    )
    assert world.state() == before


async def test_what_is_neither_is_read_and_written(world: World) -> None:
    world.bench.permissions.grant("write_file")
    await let(
        world,
        call("read_file", path="link_here/README.md"),
        call("write_file", path="link_here/src/new.py", content="x\n"),
    )
    assert (world.parent / "proj" / "src" / "new.py").read_text(encoding="utf-8") == "x\n"
    assert "README.md" in str(world.bench.model.requests[-1].messages)
