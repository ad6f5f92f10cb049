"""System calls by which a command in its sandbox tries to have an effect. The verdict is found outside of it."""

import ctypes
import os
import re
import shlex
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.sandbox.test_commands import run
from tests.tools.conftest import snapshot
from vibe_jupyter.sandbox.availability import machine_refusal
from vibe_jupyter.tools.contract import NotExplored

pytestmark = [
    pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine"),
    pytest.mark.xdist_group("command attacks"),
]
ATTEMPTS: dict[str, str] = tomllib.loads(Path(__file__).with_name("command_attacks.toml").read_text(encoding="utf-8"))[
    "attempts"
]
FIRST_LINES = """
import ctypes, os, struct, sys
L = ctypes.CDLL(None, use_errno=True)
call = lambda *a: L.syscall(*map(ctypes.c_long, a))
o = os.environ['TMPDIR']
kept = [ctypes.create_string_buffer(value) for value in (b'data.csv', b'x.csv', bytes(256))]
b, c, z = map(ctypes.addressof, kept)
VICTIM, TEST, CANARY, PORT, SHM_KEY, SHM_ID, SEM_KEY, MSG_KEY = map(int, sys.argv[1:9])
PATH, ABSTRACT = sys.argv[9:11]
print('BEGUN', flush=True)
"""
NEVER_MADE = ("NameError", "SyntaxError", "TypeError", "AttributeError", "struct.error", "ImportError")
MARKERS = tuple(
    Path(folder).expanduser() / "vibe-attack" for folder in ("/dev/shm", "/tmp", "/var/tmp", "~", "/run", "/dev/mqueue")
)
CREATE = 0o1600  # IPC_CREAT and the rights of the owner
MEMORY, UNTOUCHED = b"memory-of-a-test", b"own!"
SECRETS = ("sesame", "outside-secret", MEMORY.decode())


@dataclass(frozen=True)
class World:
    """Everything outside of a command that an attempt may reach."""

    project: Path
    victim: "subprocess.Popen[bytes]"
    sockets: list[socket.socket]
    memory: "ctypes.Array[ctypes.c_char]"
    shared: int  # address of a System V segment
    ids: tuple[int, int, int]  # of the segment, the semaphores and the queue
    names: list[str]  # arguments of the attempt

    def state(self) -> dict[str, object]:
        """Return all that an attempt could have changed."""
        pid = self.victim.pid
        process = Path(f"/proc/{pid}")
        lines = (process / "status").read_text().splitlines()
        kept = ("Name", "TracerPid", "Cpus_allowed")
        return {
            "files": snapshot(self.project.parent),
            "times": {path.name: path.stat().st_mtime_ns for path in self.project.iterdir()},
            "rights": {path.name: path.lstat()[:6] for path in self.project.iterdir()},
            "victim": (self.victim.poll(), [line for line in lines if line.startswith(kept)]),
            "limits": (process / "limits").read_text(),
            "priority": (os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid)),
            "standing": (process / "oom_score_adj").read_text(),
            "namespaces": [os.readlink(process / "ns" / name) for name in ("mnt", "net", "pid", "user")],
            "markers": [str(path) for path in MARKERS if path.exists()],
            "memory": self.memory.raw,
            "shared": ctypes.string_at(self.shared, len(UNTOUCHED)),
            "semaphore": LIBC.semctl(self.ids[1], 0, 12),  # GETVAL
            "queue": LIBC.msgrcv(self.ids[2], ctypes.create_string_buffer(64), 8, 0, 0o4000),  # IPC_NOWAIT
            "heard": [one.getsockname() for one in self.sockets if _has_heard(one)],
        }


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.shmat.restype = ctypes.c_void_p


def _has_heard(one: socket.socket) -> bool:
    try:
        if one.type == socket.SOCK_STREAM:
            one.accept()
        else:
            one.recv(100)
    except BlockingIOError:
        return False
    return True


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the project of the command, beside a file that does not belong to it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "data.csv").write_text("a,b\n1,2\n")
    (folder / ".env").write_text("TOKEN=sesame\n")
    (tmp_path / "outside.txt").write_text("outside-secret")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    return folder


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[list[socket.socket]]:
    """Return sockets that hear of any message: TCP and UDP of one port, and those of this computer."""
    abstract = f"\0vibe-attack-{os.getpid()}"
    with ExitStack() as stack:
        tcp, udp, bound, named, datagrams = sockets = [
            stack.enter_context(socket.socket(family, kind))
            for family, kind in (
                (socket.AF_INET, socket.SOCK_STREAM),
                (socket.AF_INET, socket.SOCK_DGRAM),
                (socket.AF_UNIX, socket.SOCK_DGRAM),
                (socket.AF_UNIX, socket.SOCK_STREAM),
                (socket.AF_UNIX, socket.SOCK_DGRAM),
            )
        ]
        tcp.bind(("127.0.0.1", 0))
        udp.bind(tcp.getsockname())
        bound.bind(str(tmp_path / "s"))
        named.bind(abstract)
        datagrams.bind(f"{abstract}-datagrams")
        tcp.listen()
        named.listen()
        for one in sockets:
            one.setblocking(False)
        yield sockets


@pytest.fixture
def victim() -> Iterator["subprocess.Popen[bytes]"]:
    """Return a process of the user, which has begun."""
    environment = {"TOKEN": "sesame", "PATH": os.environ["PATH"]}
    with subprocess.Popen(
        ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, process_group=0, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"x")
        process.stdout.read(1)
        yield process
        process.kill()


@pytest.fixture
def world(project: Path, listening: list[socket.socket], victim: "subprocess.Popen[bytes]") -> Iterator[World]:
    """Return all of it, with System V objects that others could open by their key."""
    key = 0x7662_0000 | os.getpid() & 0xFFFF
    ids = (LIBC.shmget(key, 4096, CREATE), LIBC.semget(key, 1, CREATE), LIBC.msgget(key, CREATE))
    shared: int = LIBC.shmat(ids[0], None, 0)
    ctypes.memmove(shared, UNTOUCHED, len(UNTOUCHED))
    memory = ctypes.create_string_buffer(MEMORY, len(MEMORY))
    port, path = listening[0].getsockname()[1], listening[2].getsockname()
    abstract: bytes = listening[4].getsockname()
    numbers = (victim.pid, os.getpid(), ctypes.addressof(memory), port, key, ids[0], key, key)
    try:
        yield World(project, victim, listening, memory, shared, ids, [*map(str, numbers), path, abstract[1:].decode()])
    finally:
        LIBC.shmdt(ctypes.c_void_p(shared))
        LIBC.shmctl(ids[0], 0, None)
        LIBC.semctl(ids[1], 0, 0)
        LIBC.msgctl(ids[2], 0, None)
        for marker in MARKERS:
            marker.unlink(missing_ok=True)


@pytest.mark.attack("commands in a sandbox")
@pytest.mark.parametrize("name", ATTEMPTS)
async def test_no_system_call_of_a_command_has_an_effect(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROJECT", str(world.project))
    before = world.state()
    words = [sys.executable, "-c", FIRST_LINES + ATTEMPTS[name], *world.names]
    done = await run(world.project, f"{shlex.join(words)} 2>&1; true")
    assert world.state() == before
    if isinstance(done, NotExplored):
        assert re.search("wanted to|needs the network", done.reason), done.reason
        return
    assert done.stdout.startswith("BEGUN\n")
    assert not [word for word in NEVER_MADE if word in done.stdout], done.stdout
    assert not [secret for secret in SECRETS if secret in done.stdout], "a secret was read"
    assert "GOT" not in done.stdout


def test_the_verdict_sees_effects(world: World) -> None:
    before = world.state()
    words = [sys.executable, "-c", FIRST_LINES + ATTEMPTS["writing by /proc/self/cwd"], *world.names]
    subprocess.run(words, cwd=world.project, env={**os.environ, "TMPDIR": str(world.project)}, check=True, timeout=60)
    LIBC.semctl(world.ids[1], 0, 16, 3)  # SETVAL
    world.sockets[1].sendto(b"x", world.sockets[1].getsockname())
    after = world.state()
    assert {name for name in before if before[name] != after[name]} >= {"files", "semaphore", "heard"}
