"""Runs in a kernel: files, sockets, memory and signals that a copy of it must leave alone, and the attempts on them."""

import ast
import atexit
import ctypes
import io
import json
import logging
import mmap
import os
import random
import signal
import socket
import sqlite3
import stat
import struct  # noqa: F401 (named by attempts, as `time` is)
import subprocess  # noqa: F401
import sys
import tempfile
import time  # noqa: F401
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from multiprocessing import shared_memory
from pathlib import Path

import numpy as np
import pandas as pd
import zmq
from ipykernel.connect import get_connection_file
from IPython.core.getipython import get_ipython

from tests.sandbox.driver import Explorer

# What the attempts name, all of it short, since they are long.
P, H = (os.path.realpath(tempfile.mkdtemp(prefix=f"{name}-")) for name in ("project", "outside"))
PID = os.getpid()
L = ctypes.CDLL(None, use_errno=True)


def put(path: str, text: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    return path


for place, content in {
    "a.txt": "keep\n",
    "b.txt": "b\n",
    ".env": "S=topsecret-env\n",
    ".env.bak": "S=topsecret-env\n",
    ".git/config": "topsecret-git\n",
    ".ssh/config": "topsecret-ssh\n",
    "sub/id_rsa": "topsecret-ssh\n",
    "sub/d.csv": "x\n1\n2\n",
    "mm.bin": "A" * 8192,
    "writes.py": f"open('{P}/ran.txt', 'w')",
}.items():
    put(f"{P}/{place}", content)
put(f"{H}/secret.txt", "topsecret-outside\n")
os.environ["MY_API_TOKEN"] = "topsecret-token"
os.mkfifo(f"{P}/fifo")
os.symlink(f"{H}/secret.txt", f"{P}/lnk")
outside = os.open(H, os.O_RDONLY)

wf = open(f"{P}/inherited.txt", "w+")  # noqa: SIM115 (a copy inherits it)
wf.write("one\n")
wf.flush()
log = open(f"{P}/app.log", "a")  # noqa: SIM115
srv = socket.create_server(("127.0.0.1", 0))
cs = socket.create_connection(srv.getsockname())
ss, _ = srv.accept()
us, ab = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
us.bind(f"{H}/s.sock")
ab.bind("\0vjabs" + str(PID))
ud = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ud.bind(("127.0.0.1", 0))
UP = ud.getsockname()[1]
for one in (ss, us, ab, ud):
    one.setblocking(False)
db = sqlite3.connect(f"{P}/t.db")
db.execute("create table t(x)")
db.execute("insert into t values (1)")
db.commit()

mm_f = open(f"{P}/mm.bin", "r+b")  # noqa: SIM115
mm = mmap.mmap(mm_f.fileno(), 8192)
mm_ro = mmap.mmap(mm_f.fileno(), 8192, prot=mmap.PROT_READ)
an = mmap.mmap(-1, 4096)
an[:4] = b"anon"
shm = shared_memory.SharedMemory(create=True, size=4096)
shm.buf[:4] = b"shmm"
KEY = 0x7661_0000 | PID & 0xFFFF
SHMID = L.shmget(KEY, 4096, 0o1600)
L.shmat.restype = ctypes.c_void_p
SHMAT = L.shmat(SHMID, None, 0)
ctypes.memmove(SHMAT, b"sysv", 4)
atexit.register(lambda: os.getpid() == PID and L.shmctl(SHMID, 0, None))

got: list[int] = []
signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
secret_in_parent = bytearray(b"parent-memory-1")
ADDR = ctypes.addressof((ctypes.c_char * 15).from_buffer(secret_in_parent))
context = zmq.Context.instance()
zr, zs = context.socket(zmq.PULL), context.socket(zmq.PUSH)
zs.connect(f"tcp://127.0.0.1:{zr.bind_to_random_port('tcp://127.0.0.1')}")
zs.poll(1000, zmq.POLLOUT)
connection_file = get_connection_file()
logging.getLogger("q").addHandler(logging.StreamHandler(sys.stderr))
logging.getLogger("q").propagate = False

box: list[int] = []
df = pd.DataFrame({"x": [1, 2, 3]})
array = np.zeros(1000)
disk = np.memmap(f"{P}/disk.bin", dtype="u1", mode="w+", shape=(4096,))
random_state = random.getstate()
pool = ThreadPoolExecutor(1)
pool.submit(int).result()


class Finalised:
    def __del__(self) -> None:
        if os.path.exists(P):
            put(f"{P}/fin.txt", "x")


fin = Finalised()
atexit.register(lambda: os.getpid() != PID and put(f"{P}/atexit.txt", "x"))


def readable(one: socket.socket) -> bool:
    try:
        return bool(one.recv(100))
    except BlockingIOError:
        return False


def text(path: str) -> str | None:
    return Path(path).read_text() if os.path.exists(path) else None


def fingerprint() -> list[object]:
    """Of every file of both folders: all that a program can ask of it but when it was read."""
    found: list[object] = []
    for folder in (P, H):
        for one in sorted([folder, *(str(path) for path in Path(folder).rglob("*"))]):
            state = os.lstat(one)
            same = [state.st_mode, state.st_ino, state.st_nlink, state.st_uid, state.st_gid, state.st_size]
            content = Path(one).read_bytes() if stat.S_ISREG(state.st_mode) else b""
            attributes = os.listxattr(one, follow_symlinks=False)
            found.append((one, *same, state.st_mtime_ns, state.st_ctime_ns, content, attributes))
    return found


ESCAPES = {
    row["name"]: row
    for file in ("escapes.toml", "overlay_escapes.toml")
    for row in tomllib.loads(Path(__file__).with_name(file).read_text())["escape"]
}
FINGERPRINT = fingerprint()
SAYS = "attempt: "
"""Before what one of several attempts says."""
MOST_SAID = 2_000
"""Characters of it."""
TOGETHER = 25.0
"""Seconds in which a copy makes several attempts."""
explore = Explorer(get_ipython(), Path(P))


def attempt(name: str, *, writes: bool = False) -> None:
    """Print whether it got out, and what the model would have read. Where it `writes`, it has files of its own."""
    got.clear()
    code = _code_of(name)
    print(json.dumps(_outcome(name, explore.with_files(code, 3) if writes else explore(code, 3))))


def attempts(names: list[str], *, writes: bool = False) -> None:
    """The same for several that one copy makes one after another: a line for each that was made."""
    got.clear()
    code = f"in_turn({names!r})"
    said = explore.with_files(code, TOGETHER) if writes else explore(code, TOGETHER)
    lines = [line.removeprefix(SAYS) for line in said.splitlines() if line.startswith(SAYS)]
    print(json.dumps({name: _outcome(name, of_it) for name, of_it in map(json.loads, lines)}))


def in_turn(names: list[str]) -> None:
    """In a copy: make attempts, and print what each would have said alone."""
    for name in names:
        *before, last = ast.parse(_code_of(name)).body
        value, printed, own = "", io.StringIO(), dict(globals())
        if not isinstance(last, ast.Expr):
            before.append(last)
        try:
            with redirect_stdout(printed):
                exec(compile(ast.Module(before, []), name, "exec"), own)
                if isinstance(last, ast.Expr):
                    value = repr(eval(compile(ast.Expression(last.value), name, "eval"), own))
            said = f"ok\n{value}\n{printed.getvalue()}"
        except Exception as error:  # noqa: BLE001 - whatever kept it from getting out
            said = f"error\n\n{printed.getvalue()}\n{type(error).__name__}: {error}"
        print(SAYS + json.dumps([name, said[:MOST_SAID]]))


def _code_of(name: str) -> str:
    return ESCAPES[name]["code"].replace("$PROJECT", P).replace("$OUTSIDE", H)


def _outcome(name: str, said: str) -> dict[str, object]:
    status, _, rest = said.partition("\n")
    known = {"said": said, "ok": status.startswith("ok"), "value": rest.partition("\n")[0]}
    escaped = bool(eval(ESCAPES[name]["escaped"], {**globals(), **known}))
    return {"escaped": escaped, "said": said[:MOST_SAID], "disk": fingerprint() == FINGERPRINT}


def children() -> list[str]:
    """Copies that are left: they have the command line of this process, and what else it started has not."""
    tasks = [Path(f"/proc/self/task/{thread}/children").read_text() for thread in os.listdir("/proc/self/task")]
    return [one for one in " ".join(tasks).split() if text(f"/proc/{one}/cmdline") in ("", text("/proc/self/cmdline"))]
