"""A repository that names programs: git asks, and neither the decision nor an allowed command runs any of them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.permissions.shell_fuzz import RUN_LIMIT, harm
from tests.permissions.shell_tree import MARKER, environment, run_git
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.shell.judge import judge_command

READING = (
    "git status",
    "git diff",
    "git log -p -1",
    "git show",
    "git diff HEAD~1",
    "git blame README.md",
    "git ls-files -m",
)
RUN_PROGRAMS = (
    ("fsmonitor", "git status"),
    ("fsmonitor in another case, on one line", "git status"),
    ("fsmonitor behind a continued line", "git status"),
    ("external diff", "git diff"),
    ("textconv", "git log -p -1 -- README.md"),
    ("textconv", "git diff HEAD~1"),
    ("textconv", "git blame README.md"),
    ("filter", "git diff --stat"),
    ("include", "git status"),
    ("conditional include", "git status"),
    ("include of a name with a tab", "git status"),
    ("include of a name that ends in a blank", "git status"),
    ("include behind empty quotes", "git status"),
    ("external diff that is only like a switch", "git diff"),
    ("format that runs gpg", "git log -1"),
    ("submodule", "git status"),
    ("link in a bisection", "git status"),
    ("external diff of a kind of file", "git diff"),
)
"""Plants that were seen to work, each with a command that sets them off."""
PIPES = (
    (".git/refs/heads/main", "git log -1"),
    (".git/packed-refs", "git log --oneline"),
    (".gitattributes", "git status"),
)
"""Places for a pipe to which nobody writes, each with a command that waits there."""
Plant = Callable[[Path], None]


def in_config(text: str) -> Plant:
    """Something more in .git/config."""

    def plant(project: Path) -> None:
        with open(project / ".git" / "config", "a", encoding="utf-8") as file:
            file.write(text.replace("EVIL", str(project / "evil.sh")) + "\n")

    return plant


def written(name: str, text: str) -> Plant:
    """A file of this name in the project."""

    def plant(project: Path) -> None:
        place = project / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.replace("EVIL", str(project / "evil.sh")), encoding="utf-8")
        place.chmod(0o755)

    return plant


def linked(name: str, target: str) -> Plant:
    """A link in the place of what was there."""

    def plant(project: Path) -> None:
        place = project / name
        if place.exists() or place.is_symlink():
            place.rename(project / "data" / "moved")
        place.symlink_to(target.replace("PROJECT", str(project)))

    return plant


def both(*plants: Plant) -> Plant:
    """One after the other."""

    def plant(project: Path) -> None:
        for each in plants:
            each(project)

    return plant


def submodule(project: Path) -> None:
    """A folder that is a repository of its own, listed as such, with a watcher in its settings; no .gitmodules."""
    inner, parent = project / "inner", project.parent
    inner.mkdir()
    run_git(inner, parent, "init", "-q", "-b", "main", ".")
    run_git(inner, parent, "commit", "-q", "--allow-empty", "-m", "x")
    run_git(project, parent, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
    run_git(inner, parent, "config", "core.fsmonitor", str(project / "evil.sh"))


def not_a_folder(project: Path) -> None:
    """.git is a file that names another repository."""
    (project / ".git").rename(project / "data" / "real")
    (project / ".git").write_text(f"gitdir: {project}/evilbare\n")


def bare(project: Path) -> None:
    """The project folder itself looks like a repository."""
    for name in ("HEAD", "config", "objects", "refs"):
        (project / "evilbare" / name).rename(project / name)


def nested_attributes(project: Path) -> None:
    """Attributes in a folder, which is what names a filter."""
    written("src/.gitattributes", "*.py filter=x\n")(project)
    run_git(project, project.parent, "add", "-A")


def signed_commits(project: Path) -> None:
    """A default format that lets gpg look at each commit, and a commit that has a signature."""
    in_config("[gpg]\n\tprogram = EVIL\n[format]\n\tpretty = %h %+G?")(project)
    asked = ["git", "cat-file", "commit", "HEAD"]
    raw = subprocess.run(asked, cwd=project, capture_output=True, text=True, check=True, timeout=20).stdout
    head, _, body = raw.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    made = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        input=f"{head}\n{signature}\n\n{body}",
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout.strip()
    (project / ".git" / "refs" / "heads" / "main").write_text(made + "\n")


PLANTS: dict[str, Plant] = {
    "format that runs gpg": signed_commits,
    "link in a bisection": both(
        written(".git/BISECT_LOG", ""), linked(".git/BISECT_START", "PROJECT/../outside/secret.txt")
    ),
    "external diff of a kind of file": both(
        in_config('[diff "x"]\n\tcommand = EVIL'), written(".gitattributes", "*.md diff=x\n")
    ),
    "fsmonitor": in_config("[core]\n\tfsmonitor = EVIL"),
    "fsmonitor in another case, on one line": in_config("[CORE] FSMonitor = EVIL"),
    "fsmonitor behind a continued line": in_config("[user]\n\tname = a \\\n\n[core]\n\tfsmonitor = EVIL"),
    "fsmonitor behind a carriage return": in_config("[core]\r\n\tfsmonitor = EVIL\r"),
    "fsmonitor in a strange section": in_config('[core ""]\n\tfsmonitor = EVIL'),
    "external diff": in_config("[diff]\n\texternal = EVIL"),
    "textconv": both(in_config('[diff "x"]\n\ttextconv = EVIL'), written(".gitattributes", "*.md diff=x\n")),
    "filter": both(in_config('[filter "x"]\n\tclean = EVIL'), written(".gitattributes", "*.md filter=x\n")),
    "attributes alone": written(".gitattributes", "*.md filter=x\n"),
    "attributes of this clone": written(".git/info/attributes", "*.md diff=x\n"),
    "attributes in a folder": nested_attributes,
    "include": both(in_config("[include]\n\tpath = ../evil.gitconfig")),
    "conditional include": in_config('[includeIf "gitdir:/"]\n\tpath = ../evil.gitconfig'),
    "include of a name with a tab": both(
        in_config("[include]\n\tpath = a\\tb"), written(".git/a\tb", "[core]\n\tfsmonitor = EVIL\n")
    ),
    "include of a name that ends in a blank": both(
        in_config('[include]\n\tpath = "a "'), written(".git/a ", "[core]\n\tfsmonitor = EVIL\n")
    ),
    "include behind empty quotes": both(
        in_config('[include]\n\tpath = "" a'), written(".git/a", "[core]\n\tfsmonitor = EVIL\n")
    ),
    "external diff that is only like a switch": in_config('[diff]\n\texternal = "\\nEVIL"'),
    "pager": in_config("[core]\n\tpager = EVIL"),
    "pager of one command": in_config("[pager]\n\tlog = EVIL"),
    "signatures": in_config("[log]\n\tshowSignature = true\n[gpg]\n\tprogram = EVIL"),
    "hooks elsewhere": in_config("[core]\n\thooksPath = data"),
    "hook": written(".git/hooks/post-index-change", "#!/bin/sh\nEVIL\n"),
    "work tree elsewhere": in_config("[core]\n\tworktree = ../../outside"),
    "work tree settings": both(
        in_config("[extensions]\n\tworktreeConfig = true"),
        written(".git/config.worktree", "[core]\n\tfsmonitor = EVIL\n"),
    ),
    "common folder": written(".git/commondir", "../evilbare\n"),
    "objects elsewhere": written(".git/objects/info/alternates", "../../../outside/repo/.git/objects\n"),
    "partial clone": in_config('[remote "origin"]\n\tpromisor = true\n\tuploadpack = EVIL'),
    "submodule": submodule,
    "submodule settings": written(".gitmodules", '[submodule "x"]\n\tpath = src\n\turl = ./x\n'),
    ".git is a file": not_a_folder,
    ".git is a link": linked(".git", "PROJECT/../outside/repo/.git"),
    "settings are a link": linked(".git/config", "PROJECT/evil.gitconfig"),
    "settings are no text": written(".git/config", "[core]\n\tbare = false\n\x01\n"),
    "a broken repository": written(".git/HEAD", "nonsense\n"),
    "a folder like a repository": bare,
}


@pytest.mark.attack("hostile repositories", always=True)
@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
def test_in_a_repository_that_names_programs_only_what_starts_none_goes_unasked(
    fresh_project: Path, plant: Plant
) -> None:
    plant(fresh_project)
    (fresh_project / MARKER).unlink(missing_ok=True)

    verdicts = {command: judge_command(command, Workspace(fresh_project)) for command in READING}

    assert not (fresh_project / MARKER).exists(), "deciding ran a planted program"
    assert {verdict.rule for verdict in verdicts.values()} <= {"repository", "read-only"}
    for command, verdict in verdicts.items():
        if verdict.verdict == "allow":
            assert harm(command, fresh_project, guarded=False) == "", command


@pytest.mark.parametrize(("name", "command"), RUN_PROGRAMS)
def test_what_would_start_a_planted_program_asks(fresh_project: Path, name: str, command: str) -> None:
    PLANTS[name](fresh_project)
    os.utime(fresh_project / "README.md")
    (fresh_project / MARKER).unlink(missing_ok=True)
    assert judge_command(command, Workspace(fresh_project)).rule == "repository"
    assert harm(command, fresh_project, guarded=False), "the plant does not work, so the test shows nothing"


@pytest.mark.attack("hostile repositories", always=True)
@pytest.mark.parametrize("form", ["--index-version=2", "--index-version=3", "--index-version=4", "--split-index"])
def test_a_submodule_that_only_the_index_names_asks_in_every_form_of_the_index(fresh_project: Path, form: str) -> None:
    run_git(fresh_project, fresh_project.parent, "update-index", *form.split("="))
    split = form == "--split-index"
    assert judge_command("git status", Workspace(fresh_project)).verdict == ("ask" if split else "allow")
    submodule(fresh_project)
    run_git(fresh_project, fresh_project.parent, "update-index", *form.split("="))
    for command in ("git status", "git diff --stat", "git describe --dirty"):
        assert judge_command(command, Workspace(fresh_project)).rule == "repository", command


@pytest.mark.parametrize("setting", ["[include]\n\tpath = ", "[core]\n\thooksPath = "])
@pytest.mark.parametrize("path", ["~root/a", "~", "%(prefix)/a", ":(optional)a", "a\tb"])
def test_a_path_that_git_expands_in_its_own_way_asks(fresh_project: Path, setting: str, path: str) -> None:
    in_config(f"{setting}{path}")(fresh_project)
    assert judge_command("git status", Workspace(fresh_project)).rule == "repository"


@pytest.mark.attack("hostile repositories", always=True)
@pytest.mark.parametrize(("place", "command"), PIPES)
def test_what_would_wait_at_a_planted_pipe_asks(fresh_project: Path, place: str, command: str) -> None:
    pipe = fresh_project / place
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    os.utime(fresh_project / "README.md")
    assert judge_command(command, Workspace(fresh_project)).rule == "repository"
    with subprocess.Popen(command.split(), cwd=fresh_project, env=environment(fresh_project.parent)) as git:
        try:
            assert waits_at(pipe, git), "the plant does not work, so the test shows nothing"
        finally:
            git.kill()


def waits_at(pipe: Path, program: "subprocess.Popen[bytes]") -> bool:
    """Whether the program opens it, before it ends. A pipe can be written to only while somebody reads it."""
    end = time.monotonic() + RUN_LIMIT
    while time.monotonic() < end and program.poll() is None:
        try:
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody reads it
            time.sleep(0.01)
        else:
            return True
    return False


@pytest.mark.parametrize("command", READING)
def test_in_an_ordinary_repository_nothing_asks_and_nothing_runs(fresh_project: Path, command: str) -> None:
    for name in ("pre-commit", "post-checkout", "post-merge"):
        written(f".git/hooks/{name}", "#!/bin/sh\nEVIL\n")(fresh_project)
    assert judge_command(command, Workspace(fresh_project)).verdict == "allow"
    assert harm(command, fresh_project) == ""


@pytest.mark.attack("hostile repositories", always=True)
def test_the_environment_of_commands_keeps_a_watcher_from_starting(fresh_project: Path) -> None:
    """A second wall: should a repository change between the decision and the run."""
    in_config("[core]\n\tfsmonitor = EVIL\n\tpager = EVIL")(fresh_project)
    os.utime(fresh_project / "README.md")
    unguarded = subprocess.run(
        ["git", "status"], cwd=fresh_project, env=environment(fresh_project.parent), capture_output=True, timeout=20
    )
    assert unguarded.returncode == 0
    assert (fresh_project / MARKER).exists(), "the plant does not work, so the test shows nothing"
    (fresh_project / MARKER).unlink()
    assert harm("git status; git log -1", fresh_project) == ""


AUDIT = """
import sys
from pathlib import Path
from vibe_jupyter.permissions.shell.judge import judge_command
from vibe_jupyter.files.workspace import Workspace
seen = []
BAD = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "os.system", "socket.connect", "import")
def audit(name, args):
    written = name == "open" and isinstance(args[2], int) and args[2] & 3
    if written or name in BAD and not (name == "import" and "/proj/" not in str(args[1])):
        seen.append((name, str(args)))
workspace = Workspace(Path(sys.argv[1]))
judge_command("ls", workspace)
sys.addaudithook(audit)
for command in sys.argv[2:]:
    judge_command(command, workspace)
print(seen)
"""


def test_deciding_starts_no_process_and_writes_nothing(shell_project: Path) -> None:
    commands = [
        *READING,
        "ls *",
        "grep -r x .",
        "find . -delete",
        "sort -o x y",
        "echo $(./evil.sh)",
        "diff -r src data",
    ]
    done = subprocess.run(
        [sys.executable, "-c", AUDIT, str(shell_project), *commands], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
