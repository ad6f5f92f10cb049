"""The attempts to get out once more: inside a container, and by a real user without rights."""

import os
import pwd
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.kernel.matrix import ROOT
from tests.patience import patient
from tests.tiers import further
from vibe_jupyter.sandbox.availability import machine_refusal

pytestmark = pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine")
MADE_OF = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", sys.base_prefix, os.path.realpath(sys.base_prefix))
"""Folders of this machine that a container has, beside this project and its Python."""
ATTEMPTS = ("test_escapes.py", "test_commands.py", "test_copies.py::test_code_sees_every_variable_and_changes_none")
SOME = "pidfd or abstract or datagram or unlinking or namespaces or sees_every_variable"
"""Names of attempts that `make test` makes; all are made by `make test-matrix`."""
START = patient(30.0)
"""Seconds in which a container runs a program that does nothing."""
ALL = 900.0
"""Seconds in which all attempts have been made."""


def in_container(
    user: str, command: list[str], seconds: float, *, folder: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run a command in this folder there."""
    folders = dict.fromkeys((*MADE_OF, str(ROOT), sys.prefix, str(folder)))
    script = str(Path(__file__).with_name("container.sh"))
    return subprocess.run(
        ["bash", script, user, *folders, "--", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


@pytest.fixture(params=["nobody", further("root")])
def user(request: pytest.FixtureRequest) -> str:
    """Root of a user namespace, without rights outside; a user of this machine, without any."""
    if request.param != "root" and os.geteuid() != 0:
        pytest.skip("only the superuser can become somebody else")
    tried = in_container(request.param, ["true"], START)
    if tried.returncode:
        pytest.skip(f"no container can be made here: {tried.stderr.strip()}")
    return request.param


def make_attempts(user: str, *more: str) -> None:
    tests = [str(Path(__file__).with_name(name)) for name in ATTEMPTS]
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", *more]
    done = in_container(user, [sys.executable, "-m", "pytest", *options, *tests], ALL)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert re.fullmatch(r"\d+ passed.* in .*", done.stdout.splitlines()[-1])
    assert "skipped" not in done.stdout


def test_the_user_has_no_rights_on_this_machine(user: str) -> None:
    looks = "import os; print(os.geteuid()); open('/proc/1/comm').read(); open('tests/made.txt', 'w')"
    done = in_container(user, [sys.executable, "-c", looks], START)
    assert done.stdout == ("0\n" if user == "root" else f"{pwd.getpwnam(user).pw_uid}\n")
    assert "Read-only file system" in done.stderr
    assert not (ROOT / "tests" / "made.txt").exists()


@pytest.mark.parametrize("top", ["/tmp", further("/mnt"), further("/srv")])
def test_a_clone_in_the_folder_that_a_container_replaces_is_found_there(user: str, top: str) -> None:
    """A clone in /tmp was not, so that all of these tests were skipped."""
    if not os.access(top, os.W_OK):
        pytest.skip("only the superuser can become somebody else")
    with tempfile.TemporaryDirectory(dir=top) as made:
        clone = Path(made)
        clone.chmod(0o755)
        (clone / "README.md").touch()
        done = in_container(user, ["ls"], START, folder=clone)
    assert (done.stdout, done.returncode) == ("README.md\n", 0), done.stderr


def test_some_attempts_there_have_no_effect(user: str) -> None:
    make_attempts(user, "-k", SOME)


def test_without_user_namespaces_it_is_said_why_copies_have_no_files_of_their_own() -> None:
    inside = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*inside, "true"], capture_output=True, timeout=START, check=False).returncode:
        pytest.skip("no user namespaces here")
    looks = (
        "from vibe_jupyter.sandbox import availability as here; print(here.machine_refusal(), here.overlay_refusal())"
    )
    limits = "echo 0 > /proc/sys/user/max_user_namespaces"
    gives_up_rights = "exec setpriv --inh-caps=-all --bounding-set=-all --securebits=+noroot"
    done = subprocess.run(
        [*inside, "bash", "-ec", f'{limits}; {gives_up_rights} "$0" "$@"', sys.executable, "-c", looks],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
        capture_output=True,
        text=True,
        timeout=START,
        check=False,
    )
    assert done.stdout == " user namespaces are not allowed here (No space left on device)\n", done.stderr


@pytest.mark.matrix
@pytest.mark.timeout(ALL + START)
def test_no_attempt_there_has_an_effect(user: str) -> None:
    make_attempts(user)
