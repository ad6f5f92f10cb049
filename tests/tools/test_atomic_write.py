"""Writing whole or not at all: under races, without room, without rights, and when the process is killed."""

import ctypes
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.tiers import further
from tests.tools.conftest import make_tree, snapshot
from vibe_jupyter.errors import ToolError
from vibe_jupyter.files import real_path as folders
from vibe_jupyter.files.access import FileAccess
from vibe_jupyter.files.atomic_write import NewFile, content_fingerprint, write_file
from vibe_jupyter.files.workspace import Workspace

RACES = 10_000
WRITES = 300
MET = 10
"""Times that a write came through, and that it met the link."""
KILLED = 60
"""Points at which a writing process is ended; more than it has."""


def seen(path: Path) -> str:
    return content_fingerprint(path.read_bytes())


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """As on a disk with no more room: writing beyond fails in this process."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.fixture(params=["unnamed", "named"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With and without files that have no name, which only Linux has."""
    if request.param == "named":
        monkeypatch.setattr(folders, "_UNNAMED", 0)
    return request.param


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("backup", ["", ".bak"])
def test_without_room_the_old_file_stays_and_nothing_is_left(project: Path, workspace: Workspace, backup: str):
    (project / "a.txt").write_text("old" * 1_000, encoding="utf-8")
    before = snapshot(project)

    with (
        largest_file(2_000),
        pytest.raises(ToolError, match=r"'a\.txt' cannot be written: the disk or the quota is full"),
    ):
        write_file(workspace.resolve("a.txt"), NewFile(b"new" * 5_000, seen(project / "a.txt"), backup=backup))
    with largest_file(2_000), pytest.raises(ToolError, match="the disk or the quota is full"):
        write_file(workspace.resolve("deep/er/b.txt"), NewFile(b"new" * 5_000, None))

    assert snapshot(project) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to the superuser")
def test_without_rights_it_is_an_error_in_words(project: Path, workspace: Workspace):
    (project / "a.txt").write_text("old", encoding="utf-8")
    project.chmod(0o500)
    try:
        with pytest.raises(ToolError, match="this account may not write there"):
            write_file(workspace.resolve("a.txt"), NewFile(b"new", seen(project / "a.txt")))
    finally:
        project.chmod(0o700)
    assert (project / "a.txt").read_text(encoding="utf-8") == "old"


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can become somebody else")
def test_somebody_without_rights_reads_an_error_in_words(project: Path):
    """The same in a process that gave up its rights."""
    for parent in (project, *project.parents[:-2]):
        parent.chmod(0o755)
    (project / "a.txt").write_text("old", encoding="utf-8")
    script = """
        import os, sys
        from pathlib import Path
        from vibe_jupyter.errors import ToolError
        from vibe_jupyter.files.atomic_write import NewFile, write_file
        from vibe_jupyter.files.atomic_write import content_fingerprint
        from vibe_jupyter.files.workspace import Workspace
        os.setgid(65534), os.setuid(65534)
        for path, seen in (("a.txt", content_fingerprint(b"old")), ("b.txt", None), ("c/d.txt", None)):
            try:
                write_file(Workspace(Path(sys.argv[1])).resolve(path), NewFile(b"new", seen))
            except ToolError as error:
                print(error)
    """
    before = snapshot(project)

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), project], capture_output=True, text=True, timeout=60, check=True
    )

    said = "cannot be written: this account may not write there. Nothing was written. Tell the user."
    assert done.stdout.splitlines() == [f"'{path}' {said}" for path in ("a.txt", "b.txt", "c/d.txt")]
    assert snapshot(project) == before


@pytest.mark.usefixtures("way")
def test_a_file_that_is_read_only_is_left_alone_even_by_the_superuser(project: Path, workspace: Workspace):
    (project / "a.txt").write_text("old", encoding="utf-8")
    (project / "a.txt").chmod(0o444)

    with pytest.raises(ToolError, match=r"'a\.txt' is read-only"):
        write_file(workspace.resolve("a.txt"), NewFile(b"new", seen(project / "a.txt")))

    assert (project / "a.txt").read_text(encoding="utf-8") == "old"


@pytest.mark.usefixtures("way")
def test_a_file_is_replaced_only_in_the_state_that_was_seen(project: Path, workspace: Workspace):
    (project / "a.txt").write_text("other", encoding="utf-8")
    before = snapshot(project)

    for fingerprint, said in ((content_fingerprint(b"old"), "was changed meanwhile"), (None, "exists by now")):
        with pytest.raises(ToolError, match=said):
            write_file(workspace.resolve("a.txt"), NewFile(b"new", fingerprint))
    with pytest.raises(ToolError, match="is gone"):
        write_file(workspace.resolve("b.txt"), NewFile(b"new", content_fingerprint(b"old")))

    assert snapshot(project) == before


@pytest.mark.skipif(not hasattr(os, "listxattr"), reason="no extended attributes here")
def test_attributes_of_the_file_are_kept(project: Path, workspace: Workspace):
    (project / "a.txt").write_text("old", encoding="utf-8")
    try:
        os.setxattr(project / "a.txt", "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has no attributes")

    write_file(workspace.resolve("a.txt"), NewFile(b"new", content_fingerprint(b"old")))

    assert os.getxattr(project / "a.txt", "user.note") == b"mine"
    assert (project / "a.txt").read_bytes() == b"new"


def test_a_program_that_runs_as_its_owner_does_not_stay_one(project: Path, workspace: Workspace):
    (project / "tool").write_text("old", encoding="utf-8")
    (project / "tool").chmod(0o4755)

    write_file(workspace.resolve("tool"), NewFile(b"new", content_fingerprint(b"old")))

    assert (project / "tool").stat().st_mode & 0o7777 == 0o755


# ---- killed ----
WRITER = """
import os, sys
from pathlib import Path
from vibe_jupyter.files import real_path as folder
from vibe_jupyter.files.atomic_write import NewFile, write_file
from vibe_jupyter.files.atomic_write import content_fingerprint
from vibe_jupyter.files.workspace import Workspace

if sys.argv[2] == "named":
    folder._UNNAMED = 0
place = Path(sys.argv[1], "a.txt")
contents = {b"old" * 1000: "old", b"new" * 1000: "new"}

def count(frame, event, argument):
    global left
    if event == "c_call" and getattr(argument, "__module__", "") in ("posix", "_io"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)

new = NewFile(b"new" * 1000, content_fingerprint(b"old" * 1000))
for left in range(0, int(sys.argv[3]), 3):
    place.write_bytes(b"old" * 1000)
    writer = os.fork()
    if writer == 0:
        located = Workspace(Path(sys.argv[1])).resolve("a.txt")
        sys.setprofile(count)
        write_file(located, new)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1])
    print(code, contents.get(place.read_bytes(), "torn"))
    if code == 0:
        break
"""
"""Has writers killed at their first, fourth, … call of the system, each a fork, until one comes to its end."""


@pytest.mark.parametrize("way", ["unnamed", "named"])
def test_a_killed_writer_leaves_the_old_file_or_the_new_one_and_nothing_that_stays(
    project: Path, workspace: Workspace, way: str
):
    command = [sys.executable, "-c", WRITER, project, way, str(KILLED)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    *killed, last = done.stdout.splitlines()
    assert set(killed) <= {f"{-signal.SIGKILL} old", f"{-signal.SIGKILL} new"}
    assert last == "0 new", "the writers did not reach the end"
    assert len(killed) > 4

    for left in project.glob(".vibe-*.tmp"):
        os.utime(left, (0, 0))
    write_file(workspace.resolve("b.txt"), NewFile(b"x", None))
    assert sorted(os.listdir(project)) == ["a.txt", "b.txt"]


def test_files_of_others_are_not_swept_away(project: Path, workspace: Workspace):
    fresh, odd = project / ".vibe-0123456789abcdef.tmp", project / ".vibe-notes.tmp"
    fresh.touch()
    odd.touch()
    os.utime(odd, (0, 0))

    write_file(workspace.resolve("b.txt"), NewFile(b"x", None))

    assert fresh.exists()
    assert odd.exists()


# ---- races ----
EXCHANGE = 2
"""Flag of renameat2: both names change places, and at no moment is one missing."""
HERE = -100
"""What the C library takes for the working folder."""


def exchange(one: Path, other: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux exchanges two names at once")
    if ctypes.CDLL(None, use_errno=True).renameat2(HERE, bytes(one), HERE, bytes(other), EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


@pytest.fixture
def quick_turns() -> Iterator[None]:
    """Threads take turns far more often, so that they meet in the middle of a write."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def swapped(tree: Path) -> Path:
    """The corpus's tree with a link that leads outside, to be put in place of the project's folder `src`."""
    shutil.copy(tree / "proj/src/main.py", tree / "outside/main.py")  # so that no fingerprint tells them apart
    (tree / "evil").symlink_to(tree / "outside")
    return tree


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("quick_turns")
def test_a_folder_swapped_for_a_link_ten_thousand_times_never_lets_a_write_out(swapped: Path):
    project, outside = swapped / "proj", snapshot(swapped / "outside")
    swaps, stop = 0, threading.Event()

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            exchange(project / "src", swapped / "evil")
            exchange(swapped / "evil", project / "src")
            swaps += 1

    swapper = threading.Thread(target=swap)
    swapper.start()
    came: Counter[str] = Counter()
    try:
        while swapper.is_alive() and (swaps < RACES or came.total() < WRITES or min(met(came)) < MET):
            came[_try_to_write(Workspace(project), f"src/{came.total()}/made.py")] += 1
            came[_try_to_write(Workspace(project), "src/main.py")] += 1
    finally:
        stop.set()
        swapper.join(120)

    assert swaps >= RACES
    assert snapshot(swapped / "outside") == outside
    assert min(met(came)) >= MET
    assert list(swapped.rglob(".vibe-*")) == []


@pytest.mark.requirement("permission.path.race")
@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("src", "src/deep/er/made.py"),
        ("src/main.py", "src/main.py"),
        further("src", "src/main.py"),
        further("src/main.py", "src/deep/er/made.py"),
    ],
)
def test_a_link_put_there_before_any_single_step_of_a_write_is_not_followed(
    tmp_path_factory: pytest.TempPathFactory, place: str, path: str
):
    steps = -1
    for step in range(200):
        tree = tmp_path_factory.mktemp("t")
        make_tree(tree)
        shutil.copy(tree / "proj/src/main.py", tree / "outside/main.py")  # so that no fingerprint tells them apart
        (tree / "evil").symlink_to(tree / ("outside" if place == "src" else "outside/main.py"))
        outside, files = snapshot(tree / "outside"), FileAccess(Workspace(tree / "proj"))
        target = files.now(Workspace(tree / "proj").resolve(path), 0)
        swap = partial(exchange, tree / "proj" / place, tree / "evil")
        with before_step(step, swap) as reached, suppress(ToolError):
            files.write(target, b"written")
        assert snapshot(tree / "outside") == outside, f"step {step}"
        if not reached():
            steps = step
            break

    assert steps > 10


def test_a_file_put_there_before_any_single_step_of_a_write_is_not_lost(tmp_path_factory: pytest.TempPathFactory):
    """But for the one step between the last look and the rename, which no system call does as one."""
    lost: list[int] = []
    for step in range(200):
        folder = tmp_path_factory.mktemp("t")
        place, theirs = folder / "a.txt", folder / "theirs.txt"
        place.write_bytes(b"old")
        theirs.write_bytes(b"old")  # so that no fingerprint tells them apart
        located, mark = Workspace(folder).resolve("a.txt"), theirs.stat().st_ino
        with before_step(step, partial(os.replace, theirs, place)) as reached, suppress(ToolError):
            write_file(located, NewFile(b"written", content_fingerprint(b"old")))
        if not reached():
            break
        if place.stat().st_ino != mark:
            lost.append(step)

    assert step > 10
    assert len(lost) <= 1


@pytest.mark.usefixtures("way")
def test_a_write_is_on_the_disk_before_its_name_and_its_name_before_it_is_told(
    project: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    place, synced, sync = project / "a.txt", list[tuple[str, bytes]](), os.fsync

    def watched(descriptor: int) -> None:
        sync(descriptor)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            synced.append(("folder", place.read_bytes()))
        else:
            synced.append(
                (place.read_text() if place.exists() else "", Path(f"/proc/self/fd/{descriptor}").read_bytes())
            )

    monkeypatch.setattr(os, "fsync", watched)
    write_file(workspace.resolve("a.txt"), NewFile(b"new", None))
    write_file(workspace.resolve("a.txt"), NewFile(b"newer", content_fingerprint(b"new")))

    assert synced == [("", b"new"), ("folder", b"new"), ("new", b"newer"), ("folder", b"newer")]


@contextmanager
def before_step(number: int, act: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Have something done just before the n-th call of the system; the value says whether it came to that."""
    left, reached = number, False

    def watch(frame: object, event: str, argument: object) -> None:
        nonlocal left, reached
        if event == "c_call" and getattr(argument, "__module__", "") == "posix" and not reached:
            left -= 1
            if left < 0:
                reached = True
                act()

    sys.setprofile(watch)
    try:
        yield lambda: reached
    finally:
        sys.setprofile(None)


def met(came: Counter[str]) -> tuple[int, int]:
    return came["written"], came["refused"] + came["outside"]


def _try_to_write(workspace: Workspace, path: str) -> str:
    files = FileAccess(workspace)
    try:
        located = workspace.resolve(path)
        if not located.inside:
            return "outside"
        files.write(files.now(located, 0), b"written")
    except ToolError:
        return "refused"
    return "written"


def test_two_writers_at_once_never_mix_and_one_of_them_is_told(project: Path, workspace: Workspace):
    place = project / "a.txt"
    for _ in range(50):
        place.write_text("old", encoding="utf-8")
        both, told = threading.Barrier(2), list[str]()

        def one(content: bytes, both: threading.Barrier = both, told: list[str] = told) -> None:
            both.wait(10)
            try:
                write_file(workspace.resolve("a.txt"), NewFile(content, content_fingerprint(b"old")))
            except ToolError as error:
                told.append(str(error))

        threads = [threading.Thread(target=one, args=(content,)) for content in (b"one", b"two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert place.read_bytes() in (b"one", b"two")
        assert len(told) == 1
        assert "was changed meanwhile" in told[0]
