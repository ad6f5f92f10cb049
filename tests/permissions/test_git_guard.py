"""Changes and searches of git run unasked and print nothing of a protected file: now, from history, renamed."""

import os
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.patience import patient
from tests.permissions.shell_tree import run_git
from vibe_jupyter.files.protected import own_patterns, protect_also
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.shell.git_environment import git_environment
from vibe_jupyter.permissions.shell.judge import judge_command, search_guard

SECRET = "sk-GUARDED"
COPIES = (".env~", "#server.key#", ".env.swp", "id_rsa.1", "credentials.json.bak", ".env ", ".ENV", "deep/.SSH/x")
LIMITS = ("-n 1 --max-count=-1", "-n 1 -n +9", "-1 --max-count=+3", "-1 --skip=+1", "-1 -n 2", "-2 --skip=1")
UNASKED = f"""\
git diff
git diff HEAD
git diff HEAD -- .
git diff main~4 main
git diff main~1..main~2
git diff main~4...side
git diff --merge-base side
git diff main~3^@
git show main~4^-
git diff --cached
git diff -R --word-diff -U9
git diff --check main~6
git diff -M main~5 main~4
git diff main.py src
git diff -- src main.py
git diff '*.py' -- '*'
git diff *.py
git diff -- '.e*'
git diff -- ':!main.py'
git -C src diff
git -C src diff a.py
git -C src -C .. --no-pager -c color.ui=always diff main~5
cd src && git diff; git log -p -2
for f in main.py src .; do git diff main~6 -- $f; done
git show
git show main~1 main~2 main~3 main~4 main~5 main~6
git show side
git show -m main~3
git show -c -M main~3
git show main~5 -- notes.txt
git show notes
git show -n 9
git show --max-count=3 main~1 -- '[!x]*'
git show -1 --skip=2 main~3
git show main~5..main
git log -p
git log -p -m --reverse
git log -p --graph --oneline
git log -p -M
git log -p -9 --stat
git log -p -9 -- notes.txt
git log -p -- notes.txt moved.txt
git log -p --no-walk main~4 main~5
git log -p --author a --since 2000-01-01
git log -p --diff-filter=AD
git log -p main~6..side
git log -p side ^main~6
git log -S {SECRET[3:]} -p
git log -G GUARDE
git grep GUARDE
git grep -n GUARDE HEAD
git grep -h -e GUARDE main~5 main~2 -- notes.txt
git grep --cached -c GUARDE
git grep . -- '.e*'
git grep GUARDE .
git show --stat main~5
git diff --stat main~5
git log --stat
git status -sb""".splitlines()
ASKING = {
    "operand": (
        *("git show HEAD:main.py", "git show :main.py", "git show :0:main.py", "git diff HEAD:main.py main~1:main.py"),
        *("git grep *.py", "cd src && git diff ../*/a.py"),
        *("git show -C -C", "git diff -C main~1", "git log -p --find-copies=50%"),
        *("git show main~5:notes.txt", "git blame main~5 -- notes.txt", "git blame main~5 notes.txt"),
    ),
    "place": (
        *("git show HEAD:.env", "git show :.env", "git show main:./.env", "git diff .env", "git diff HEAD -- .env"),
        *("git log -p .env", "git log -p --follow notes.txt", "git blame .env", "git blame main -- .env"),
        *(
            "git log -p --all",
            "git reflog -p",
            "git show --stat --tags",
            "git grep x .env",
            "git show HEAD -- .env",
            "git -C src show HEAD:.env",
        ),
    ),
    "option": ("git log -L1,2:.env", "git diff --ext-diff", "git stash show -p", "git grep --no-index x"),
    "name": ("git range-diff main~2..main side", "git archive main", "git difftool"),
}
AS_WRITTEN = """\
git diff
git diff --cached -- .
git diff HEAD~2 HEAD
git show
git show HEAD~1 --stat
git show v1
git log -p
git log -p -2 --graph
git log -p -- src
git log -S 1
git grep -n print
git grep print HEAD
git -C src grep x""".splitlines()


def shown(command: str, project: Path, environ: Mapping[str, str] | None = None) -> str:
    """What it prints, as the shell tool runs it."""
    guard = {**git_environment(), **search_guard(command, Workspace(project))}
    return printed(command, project, {**guard, **(environ or {})})


def printed(command: str, project: Path, environ: Mapping[str, str]) -> str:
    """What bash prints."""
    around = {"PATH": os.environ["PATH"], "HOME": str(project.parent), "LC_ALL": "C.UTF-8", **environ}
    shell = [shutil.which("bash") or "", "--noprofile", "--norc", "-c", command]
    done = subprocess.run(shell, cwd=project, env=around, capture_output=True, text=True, timeout=patient(30))
    return done.stdout + done.stderr


class Repository:
    """A repository that is being written."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.git("init", "-q", "-b", "main", ".")

    def git(self, *words: str) -> None:
        run_git(self.project, self.project.parent, *words)

    def write(self, **texts: str) -> None:
        for name, text in texts.items():
            self.file(name.replace("_", "."), text)

    def file(self, name: str, text: str) -> None:
        (self.project / name).parent.mkdir(parents=True, exist_ok=True)
        (self.project / name).write_text(text)

    def commit(self, message: str) -> None:
        self.git("add", "-Af")
        self.git("-c", "user.name=a", "-c", "user.email=a@x", "commit", "-qm", message)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A secret in the work tree, in the index, in history, under two other names, in a merge, and deleted ones."""
    repository = Repository(tmp_path_factory.mktemp("kept"))
    git, write = repository.git, repository.write
    write(main_py="import os\nprint(1)\n", _env_example="KEY=\n", _env=f"KEY={SECRET}-1\nA=a\nB=b\nC=c\n")
    repository.file("src/a.py", "x = 1\n")
    for name in ("deploy/server.key", ".docker/config.json"):
        repository.file(name, f"{SECRET}\n")
    repository.commit("one")  # main~6
    write(main_py="import os\nprint(2)\n")
    git("mv", ".env", "notes.txt")
    repository.commit("away")  # main~5
    git("mv", "notes.txt", ".env")
    repository.file("src/a.py", "x = 2\n")
    repository.commit("back")  # main~4
    git("switch", "-qc", "side")
    git("mv", ".env", "moved.txt")
    write(moved_txt=f"KEY={SECRET}-1\nA=a\nB=b\nC=c\nD={SECRET}\n")
    repository.commit("side")
    git("tag", "-a", "-m", "x", "notes")
    git("switch", "-q", "main")
    write(main_py="import os\nprint(3)\n")
    repository.commit("three")  # main~3
    git("-c", "user.name=a", "-c", "user.email=a@x", "merge", "-q", "--no-edit", "side")
    git("mv", "moved.txt", ".env")
    for name in COPIES:
        repository.file(name, f"{SECRET}\n")
    repository.commit("back again")
    git("rm", "-q", "deploy/server.key")
    repository.commit("gone")
    write(_env=f"KEY={SECRET}-2\n")
    git("add", ".env")
    write(_env=f"KEY={SECRET}-3\n", main_py="import os\nprint(4)\n", _env_example="KEY=\nNEW=\n")
    return repository.project


@pytest.mark.attack("credential files", always=True)
@pytest.mark.parametrize("command", UNASKED)
def test_what_runs_unasked_prints_nothing_of_a_protected_file(kept: Path, command: str) -> None:
    assert judge_command(command, Workspace(kept)).verdict == "allow"
    text = shown(command, kept)
    assert SECRET not in text
    assert "fatal" not in text
    assert "not run" not in text


@pytest.mark.attack("credential files", always=True)
@pytest.mark.parametrize(("rule", "command"), [(rule, command) for rule in ASKING for command in ASKING[rule]])
def test_what_cannot_be_kept_from_protected_files_asks(kept: Path, rule: str, command: str) -> None:
    verdict = judge_command(command, Workspace(kept))
    assert (verdict.verdict, verdict.rule) == ("ask", rule), verdict


@pytest.mark.attack("credential files", always=True)
@pytest.mark.parametrize(
    "form", ["git show {}", "git show --stat {}", "git diff {} {}", "git diff {} HEAD", "git grep x {}"]
)
@pytest.mark.parametrize("of", ["HEAD:.env", "HEAD:.docker", "HEAD^{tree}"])
def test_the_id_of_a_file_or_folder_shows_nothing(kept: Path, form: str, of: str) -> None:
    asked = ["git", "rev-parse", of]
    oid = subprocess.run(asked, cwd=kept, capture_output=True, text=True, check=True).stdout.strip()
    for name in (oid, oid[:9]):
        command = form.format(name, name)
        assert judge_command(command, Workspace(kept)).verdict == "allow"
        assert SECRET not in shown(command, kept)


@pytest.mark.attack("credential files", always=True)
@pytest.mark.parametrize("limits", LIMITS)
def test_a_limit_of_commits_is_read_as_git_reads_it(kept: Path, limits: str) -> None:
    for start in ("main", "main~1", "main~2", "main~4"):
        text = shown(f"git log -p {limits} {start}", kept)
        assert "commit " in text
        assert SECRET not in text


def test_the_rest_of_a_change_is_shown_and_what_is_left_out_beside_protected_files_is_named(kept: Path) -> None:
    text = shown("git diff && git show main~5", kept)
    assert "+print(4)" in text
    assert "+NEW=" in text
    assert "+print(2)" in text
    assert "git: left out, since protected files came or went with them: notes.txt" in text
    assert "+NEW=" in shown("git diff .env.example", kept)


def test_where_nothing_is_protected_git_prints_what_it_prints_anyway(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.file("src/a.py", "x = 1\nprint(1)\n")
    repository.write(main_py="print(1)\n", _env_example="KEY=\n")
    repository.commit("one")
    repository.git("mv", "main.py", "src/main.py")
    repository.commit("two")
    repository.git("tag", "v1")
    repository.git("-c", "user.name=a", "-c", "user.email=a@x", "commit", "-q", "--allow-empty", "-m", "empty")
    repository.file("src/a.py", "x = 2\nprint(2)\n")
    for command in AS_WRITTEN:
        assert judge_command(command, Workspace(tmp_path)).verdict == "allow", command
        plain = printed(command, tmp_path, git_environment())
        assert shown(command, tmp_path) == plain != "" or "--cached" in command, command


@pytest.mark.attack("credential files", always=True)
def test_in_a_folder_of_a_repository_nothing_outside_of_it_is_shown(kept: Path) -> None:
    for command in ("git diff main~5", "git log -p", "git show main~4", "git grep -h .", "git log -p -3"):
        assert judge_command(command, Workspace(kept / "src")).verdict == "allow"
        text = shown(command, kept / "src")
        assert "print" not in text, command
    assert "-x = 1" in shown("git log -p", kept / "src")


@pytest.mark.attack("credential files", always=True)
def test_a_conflict_in_a_protected_file_is_not_shown(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    for branch, value in (("main", 1), ("side", 2), ("main", 3)):
        if branch == "side" or value == 3:
            repository.git("switch", "-q", *(["-c"] if branch == "side" else []), branch)
        repository.write(_env=f"{SECRET}-{value}\n", a_py=f"x = {value}\n")
        repository.commit(str(value))
    with pytest.raises(subprocess.CalledProcessError):
        repository.git("-c", "user.name=a", "-c", "user.email=a@x", "merge", "-q", "side")
    for command in ("git diff", "git diff --ours", "git diff HEAD", "git log -p", "git show --cc"):
        text = shown(command, tmp_path)
        assert "x = " in text
        assert SECRET not in text, command


@pytest.mark.attack("credential files", always=True)
@pytest.mark.parametrize("name", ["LITERAL", "GLOB", "NOGLOB", "ICASE"])
def test_variables_that_change_how_git_reads_paths_change_nothing(kept: Path, name: str) -> None:
    text = shown("git diff HEAD && git log -p -3", kept, {f"GIT_{name}_PATHSPECS": "1"})
    assert "print(4)" in text
    assert SECRET not in text


@pytest.mark.attack("credential files", always=True)
@pytest.mark.parametrize("setting", ["off", "first-parent", "combined"])
def test_a_setting_for_merges_hides_no_protected_file_from_the_list(tmp_path: Path, setting: str) -> None:
    repository = Repository(tmp_path)
    repository.write(_env=f"{SECRET}-1\n", a_py="x = 1\n")
    repository.commit("one")
    repository.git("switch", "-qc", "side")
    repository.write(_env=f"{SECRET}-2\n", b_py="x = 2\n")
    repository.commit("two")
    repository.git("switch", "-q", "main")
    repository.write(a_py="x = 3\n")
    repository.commit("three")
    repository.git("-c", "user.name=a", "-c", "user.email=a@x", "merge", "-q", "--no-commit", "side")
    repository.write(_env=f"{SECRET}-3\n", c_py="x = 4\n")
    repository.commit("evil")
    repository.git("config", "log.diffMerges", setting)
    for command in ("git show", "git show --diff-merges=separate", "git log -p -1 -c", "git log -p -1 --first-parent"):
        assert judge_command(command, Workspace(tmp_path)).verdict == "allow"
        text = shown(command, tmp_path)
        assert "x = 4" in text
        assert SECRET not in text, command


@pytest.mark.attack("credential files", always=True)
def test_a_limit_for_renames_in_the_settings_shows_no_copy_of_a_protected_file(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    lines = "".join(f"A{at}={at}\n" for at in range(30))
    repository.write(notes_txt=f"{lines}{SECRET}\n", a_txt="a\n", b_txt="b\n")
    repository.commit("one")
    repository.write(
        notes_txt="x\n", a_txt="x\n", b_txt="x\n", _env=f"{lines}{SECRET}\nB\n", b_pem="b1\n", c_pem="c1\n"
    )
    repository.commit("two")
    repository.git("config", "diff.renameLimit", "1")
    for command in ("git show", "git diff HEAD~1", "git log -p"):
        text = shown(command, tmp_path)
        assert "+x" in text
        assert SECRET not in text, command


@pytest.mark.attack("credential files", always=True)
@pytest.mark.parametrize(("name", "value"), [("submodule.recurse", "true"), ("diff.submodule", "diff")])
def test_settings_of_the_user_show_no_protected_file_of_a_submodule(tmp_path: Path, name: str, value: str) -> None:
    (tmp_path / "sub").mkdir()
    inner = Repository(tmp_path / "sub")
    inner.write(_env=f"{SECRET}-1\n")
    inner.commit("one")
    repository = Repository(tmp_path)
    repository.write(a_py="x = 1  # GUARDED\n")
    repository.commit("two")
    inner.write(_env=f"{SECRET}-2\n")
    inner.commit("three")
    repository.commit("four")
    inner.write(_env=f"{SECRET}-3, longer, so that git sees it within a second\n")
    setting = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": name, "GIT_CONFIG_VALUE_0": value}
    for command in ("git diff", "git show", "git log -p", "git grep GUARDED", "git grep GUARDED HEAD"):
        assert judge_command(command, Workspace(tmp_path)).verdict == "allow"
        text = shown(command, tmp_path, setting)
        assert text
        assert SECRET not in text, command


@pytest.mark.attack("credential files", always=True)
def test_the_same_arguments_in_two_repositories_are_run_as_each_was_judged(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "inner").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "passwd").write_text(SECRET)
    repository, inner = Repository(project), Repository(project / "inner")
    repository.write(a_py="x = 1  # GUARDED\n")
    repository.git("add", "a.py")
    inner.file("folder/passwd", "x\n")
    inner.file("b.py", "x = 2  # GUARDED\n")
    inner.commit("two")
    shutil.rmtree(inner.project / "folder")
    (inner.project / "folder").symlink_to(tmp_path / "outside")
    for command in ("git grep GUARDED; cd inner && git grep GUARDED", "cd inner || true; git grep GUARDED"):
        assert judge_command(command, Workspace(project)).verdict == "allow"
        text = shown(command, project)
        assert "b.py:x = 2" in text
        assert SECRET not in text, command


def test_what_is_said_to_be_left_out_holds_no_control_characters(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.write(_env="KEY=1\n")
    repository.commit("one")
    repository.git("mv", ".env", "a\x1b[2J\nb")
    repository.commit("two")
    assert "with them: a?[2J?b\n" in shown("git show", tmp_path)


@pytest.mark.attack("credential files", always=True)
@pytest.mark.parametrize(
    ("listing", "command"),
    [
        ("--name-status", "git diff"),
        ("--name-status", "git show main~5"),
        ("-C20%", "git show main~5"),
        ("ls-files", "git grep ."),
        ("diff-files", "git grep ."),
    ],
)
def test_where_names_cannot_be_listed_nothing_is_shown(kept: Path, tmp_path: Path, listing: str, command: str) -> None:
    fails = tmp_path / "git"
    fails.write_text(f'#!/bin/bash\ncase "$*" in *{listing}*) exit 3 ;; *) exec {shutil.which("git")} "$@" ;; esac\n')
    fails.chmod(0o755)
    text = shown(command, kept, {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert text == "git: not run, since what it would show can't be listed\n"


@pytest.mark.attack("credential files", always=True)
def test_no_module_of_the_working_folder_or_of_a_virtual_environment_runs(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    project = tmp_path / "project"
    shutil.copytree(kept, project)
    (packages,) = tmp_path.glob("venv/lib/python*/site-packages")
    (packages / "project.pth").write_text(f"{project}\n")
    for name in ("json.py", "signal.py", "sitecustomize.py", "usercustomize.py", "vibe_jupyter/__init__.py"):
        for folder in (project, packages):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("print('RAN')\n")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    text = shown("git diff", project, {"PYTHONPATH": str(project), "PYTHONSTARTUP": str(project / "json.py")})
    assert "+print(4)" in text
    assert "RAN" not in text


@pytest.mark.attack("credential files", always=True)
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_names_are_listed_it_shows_nothing(kept: Path, tmp_path: Path, stop: signal.Signals) -> None:
    slow = tmp_path / "git"
    slow.write_text(f"#!/bin/bash\ntouch {tmp_path / 'listing'}\nexec sleep 60\n")
    slow.chmod(0o755)
    around = {**os.environ, **search_guard("git diff", Workspace(kept)), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    shell = [shutil.which("bash") or "", "--noprofile", "--norc", "-c", "git diff"]
    with subprocess.Popen(
        shell, cwd=kept, env=around, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as running:
        until = time.monotonic() + patient(30)
        while not (tmp_path / "listing").exists() and time.monotonic() < until:
            time.sleep(0.02)
        os.killpg(running.pid, stop)
        assert running.communicate(timeout=patient(30))[0] == b""
    assert running.returncode == -stop


@pytest.mark.attack("credential files", always=True)
def test_more_protected_files_than_arguments_may_name_show_nothing(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.file("a.py", "x = 1\n")
    repository.commit("one")
    files = "".join(f"M 100644 inline {'y' * 200}/{at}/.env\ndata 2\nx\n" for at in range(11_000))
    changes = f"commit refs/heads/main\ncommitter a <a@x> 1 +0000\ndata 0\nfrom refs/heads/main^0\n{files}"
    subprocess.run(["git", "fast-import", "--quiet"], cwd=tmp_path, input=changes.encode(), check=True)
    assert shown("git show", tmp_path) == "git: not run, since [Errno 7] Argument list too long\n"


@pytest.mark.attack("credential files", always=True)
def test_a_copy_of_a_file_that_became_a_protected_one_is_not_shown(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    text = f"KEY={SECRET}\n" + "".join(f"{at}\n" for at in range(20))
    repository.write(a_txt=text, c_py="x = 1\n")
    repository.commit("one")
    repository.write(b_txt=text, c_py="x = 2\n")
    repository.git("mv", "a.txt", "server.key")  # listed after the copy
    repository.commit("two")
    assert "+x = 2" in shown("git show", tmp_path)
    assert SECRET not in shown("git show", tmp_path)


def test_a_file_added_beside_a_protected_one_is_shown_although_another_was_deleted(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.write(old_txt="old\n")
    repository.commit("one")
    repository.git("mv", "old.txt", ".env")
    repository.write(_env="KEY=1\n", new_py="x = 1\n")
    repository.commit("two")
    text = shown("git show", tmp_path)
    assert "with them: old.txt\n" in text
    assert "+x = 1" in text


def test_warnings_of_git_are_shown_once_and_its_locale_is_the_one_given(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.write(a_py="x = 1\n")
    repository.commit("one")
    repository.git("config", "core.autocrlf", "true")
    repository.write(a_py="x = \u00e9\n")
    assert shown("git diff", tmp_path).count("warning: ") == 1
    for locale in ("C", "C.UTF-8"):
        given = {"LC_ALL": "", "LANG": "C", "LC_CTYPE": locale}
        for variables in (given, {"LC_ALL": "", "LANG": locale}):
            plain = printed("git grep 'x = .$'", tmp_path, variables)
            assert shown("git grep 'x = .$'", tmp_path, variables) == plain


@pytest.mark.attack("credential files", always=True)
def test_arguments_that_were_not_judged_do_not_run(kept: Path, tmp_path: Path) -> None:
    project = tmp_path / "copy"
    shutil.copytree(kept, project)
    command = "git diff *.py"
    guard = search_guard(command, Workspace(project))
    (project / "other.py").write_text("")
    assert "not run" in printed(command, project, {**guard})


@pytest.mark.attack("credential files", always=True)
def test_a_folder_that_is_gone_or_closed_error_output_keeps_no_other_command_from_running(
    kept: Path, tmp_path: Path
) -> None:
    project = tmp_path / "copy"
    shutil.copytree(kept, project)
    for command in ("git show main~5 2>&-", "cd src && git diff; cd .. && rm -r src; git diff"):
        text = shown(command, project)
        assert "+print(" in text, command
        assert "not run" not in text
        assert SECRET not in text


def test_files_found_by_a_glob_are_those_that_bash_finds_in_any_order(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    names = ("b.py", "a.py", "Z.py", "_c.py", "c d.py", "x]y'.py", "$(touch run).py")
    for name in names:
        repository.file(name, "x = 1\n")
    repository.commit("one")
    for name in names:
        repository.file(name, "x = 2\n")
    commands = (
        "git diff [abZ].py",
        "git diff --stat -p -- *.py",
        "git log -p a*; git log -p b.py *c.py",
        "git grep 2 *.py",
    )
    for command in commands:
        assert judge_command(command, Workspace(tmp_path)).verdict == "allow"
        assert shown(command, tmp_path) == printed(command, tmp_path, git_environment()) != ""
    assert not (tmp_path / "run").exists()


def test_scripts_and_other_commands_have_the_git_that_they_expect(kept: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.sh"
    script.write_text("git show HEAD:.env\ngit diff -- .env\n")
    text = shown(f"git diff; bash {script}; git rev-parse --show-toplevel", kept)
    assert "print(4)" in text
    assert text.count(SECRET) > 1
    assert text.rstrip().endswith(str(kept))


@pytest.mark.attack("credential files", always=True)
@pytest.mark.parametrize("why", ["Apple's bash", "a privileged shell"])
def test_where_bash_takes_no_functions_what_shows_content_asks(
    kept: Path, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "Apple's bash":
        monkeypatch.setattr(sys, "platform", "darwin")
    else:
        monkeypatch.setenv("SHELLOPTS", "braceexpand:hashall:privileged")
    verdicts = {command: judge_command(command, Workspace(kept)) for command in UNASKED}
    unasked = [command for command, verdict in verdicts.items() if verdict.verdict == "allow"]
    assert unasked == ["git diff --stat main~5", "git log --stat", "git status -sb"]
    assert {verdict.rule for verdict in verdicts.values()} == {"read-only", "place"}


def test_names_of_the_user_are_protected_whatever_their_case(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    for name in (
        "GEHEIM\u00dc.txt",
        "geheim\u00fc2.txt",
        "STRASSE.cfg",
        "stra\u00dfe.cfg",
        "\u03a3\u03a3/x",
        "\u03c3\u03c2/y",
    ):
        repository.file(name, f"{SECRET}\n")
    repository.file("a.py", "x = 1\n")
    repository.commit("one")
    own = own_patterns()
    try:
        protect_also(("geheim\u00fc*.txt", "Stra\u00dfe.cfg", "\u03c3\u03c3/"))
        text = shown("git show && git grep -e GUARDED -e x", tmp_path)
    finally:
        protect_also(own)
    assert "a.py:x = 1" in text
    assert SECRET not in text
