"""The shell tool under the user's rules: verdict, levels, lists and grants together."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.permissions.grants import Grants, GrantStore
from vibe_jupyter.permissions.rules import ToolLists
from vibe_jupyter.permissions.shell import ShellVerdict
from vibe_jupyter.permissions.shell.git_environment import git_environment
from vibe_jupyter.permissions.shell.judge import judge_all, search_guard
from vibe_jupyter.protocol import Allow, Ask, Decision, Deny, Level
from vibe_jupyter.tools.bash import BashArgs, BashTool, ShellEnvironment

EVERY_MODE = (
    RunTerms(),
    RunTerms(allowed=frozenset({"bash"})),
    RunTerms(levels={"bash": "always"}),
    RunTerms(approve_all=True),
)


@pytest.fixture
def permissions(tmp_path: Path) -> Permissions:
    project = tmp_path / "project"
    project.mkdir()
    (project / "README.md").write_text("hello\n")
    (project / ".env").write_text("KEY=secret\n")
    workspace = Workspace(project)
    return Permissions(workspace, grants=Grants(GrantStore(tmp_path / "home", workspace.root)))


def decide(permissions: Permissions, command: str, terms: RunTerms | None = None) -> Decision:
    tool = BashTool(ShellEnvironment(permissions.workspace, {}, {}))
    return permissions.decide(tool, BashArgs(command=command), terms or RunTerms())


def asked(permissions: Permissions, command: str) -> Ask:
    decision = decide(permissions, command)
    assert isinstance(decision, Ask), decision
    return decision


def test_what_only_reads_runs_where_the_tool_asks_and_the_rest_asks_with_the_reason(permissions: Permissions) -> None:
    assert decide(permissions, "cat README.md | wc -l") == Allow(rule="read-only: it only reads, inside the project")
    assert asked(permissions, "git log --output=x") == Ask(
        reason="runs a shell command: git log --output is not known to be read-only",
        remember_as="bash: git log --output=x",
    )


def test_where_nobody_is_what_only_reads_runs_and_the_rest_is_denied_with_the_way_out(permissions: Permissions) -> None:
    alone = RunTerms(attended=False)
    assert isinstance(decide(permissions, "ls", alone), Allow)
    denied = decide(permissions, "make", alone)
    assert isinstance(denied, Deny)
    assert "--yes=bash" in denied.reason
    outside = decide(permissions, "cat /etc/passwd", alone)
    assert isinstance(outside, Deny)
    assert "--yes" not in outside.reason


@pytest.mark.requirement("permission.approve.session")
def test_a_grant_is_for_this_very_command_however_it_is_quoted_and_for_no_longer_one(permissions: Permissions) -> None:
    permissions.grant(str(asked(permissions, "pytest  'tests'").remember_as))
    assert isinstance(decide(permissions, "pytest tests"), Allow)
    assert isinstance(decide(permissions, '"pytest" tests 2>/dev/null | tail -3'), Allow)
    for other in (
        "pytest",
        "pytest tests -x",
        "pytest tests; make",
        "pytest test*",
        "pytest tests > out",
        "A=1 pytest tests",
    ):
        assert isinstance(decide(permissions, other), Ask), other


def test_a_glob_and_the_same_letters_in_quotes_are_two_commands(permissions: Permissions) -> None:
    permissions.grant(str(asked(permissions, "touch '*.tmp'").remember_as))
    assert isinstance(decide(permissions, "touch \\*.tmp"), Allow)
    assert isinstance(decide(permissions, "touch *.tmp"), Ask)


def test_after_a_grant_for_reading_history_other_options_still_ask(permissions: Permissions) -> None:
    permissions.grant("bash: git log")
    assert isinstance(decide(permissions, "git log --output=x"), Ask)


@pytest.mark.attack("shell commands", always=True)
@pytest.mark.parametrize("command", ["cat /etc/passwd", "cat .env", "cp README.md ../x", "rm .git/config", "ls\u00a0x"])
def test_other_places_and_hidden_characters_are_approved_once_in_every_mode(
    permissions: Permissions, command: str
) -> None:
    for terms in EVERY_MODE:
        decision = decide(permissions, command, terms)
        assert isinstance(decision, Ask)
        assert (decision.remember_as, decision.keepable) == (None, False)


@pytest.mark.attack("shell commands", always=True)
@pytest.mark.parametrize(
    "command",
    ["make > log", "x=1 make", "for i in 1; do make; done", "make $(date)", "sudo make", "cd src && make", "eval make"],
)
def test_no_grant_is_offered_for_what_its_words_do_not_tell(permissions: Permissions, command: str) -> None:
    assert asked(permissions, command).remember_as is None


@pytest.mark.parametrize(
    ("command", "keepable"),
    [
        *(
            ("pytest -q", True),
            ("make", True),
            ("python x.py", False),
            ("python3.11 x.py", False),
            ("bash x.sh", False),
        ),
        *(("./x.sh", False), ("git commit -m x", False), ("make && python x.py", False), ("find . -delete", False)),
    ],
)
def test_a_grant_for_a_program_that_runs_what_it_is_given_ends_with_the_session(
    permissions: Permissions, command: str, keepable: bool
) -> None:
    assert asked(permissions, command).keepable is keepable


def test_a_kept_grant_holds_in_the_next_session(permissions: Permissions, tmp_path: Path) -> None:
    assert permissions.grant(str(asked(permissions, "pytest -q").remember_as), "project") == "project"
    workspace = permissions.workspace
    later = Permissions(workspace, grants=Grants(GrantStore(tmp_path / "home", workspace.root)))
    assert decide(later, "pytest -q") == Allow(rule="bash: allowed for this project")
    assert isinstance(decide(later, "pytest -q -x"), Ask)


@pytest.mark.attack("shell commands", always=True)
@pytest.mark.requirement("permission.flow.deny-wins", "tools.bash.parse.commands")
@pytest.mark.parametrize(
    "command",
    [
        "rm -rf x",
        "ls; rm x",
        "/bin/rm x",
        "echo $(rm x)",
        "for i in 1; do rm x; done",
        "sudo rm x",
        "f() { rm x; }; f",
        "echo x | rm x",
        "if true; then rm x; fi",
    ],
)
def test_what_is_on_the_denylist_is_denied_in_every_mode_and_before_the_allowlist(
    permissions: Permissions, command: str
) -> None:
    permissions.lists = {"bash": ToolLists(allow=("rm",), deny=("rm",))}
    permissions.grant("bash: rm -rf x")
    for terms in EVERY_MODE:
        assert isinstance(decide(permissions, command, terms), Deny)


@pytest.mark.requirement("tools.bash.allow.word")
def test_patterns_match_whole_words(permissions: Permissions) -> None:
    permissions.lists = {"bash": ToolLists(allow=("npm run", "vi*", "make *"), deny=("vibe x",))}
    assert isinstance(decide(permissions, "npm run test"), Allow)
    assert isinstance(decide(permissions, "make all"), Allow)
    for other in ("npm runaway", "npmx run", "npm", "npm install run", "vibe", "makefile"):
        assert isinstance(decide(permissions, other), Ask), other
    assert isinstance(decide(permissions, "vi x"), Deny)
    assert isinstance(decide(permissions, "vibe"), Ask)
    assert isinstance(decide(permissions, "vibe x y"), Deny)


def test_the_allowlist_lets_nothing_more_through_of_a_command_with_reading_options(permissions: Permissions) -> None:
    permissions.lists = {"bash": ToolLists(allow=("find", "git diff", "cat", "sort -o x README.md", "tee"))}
    for command in (
        "find . -delete",
        "git diff --output=x",
        "cat .env",
        "tee x > y",
        "echo x | tee /etc/x",
        "cd x && tee y",
    ):
        assert isinstance(decide(permissions, command), Ask), command
    assert isinstance(decide(permissions, "echo x | tee y"), Allow)
    assert isinstance(decide(permissions, "sort -o x README.md"), Allow)


@pytest.mark.requirement("tools.bash.deny.interactive")
@pytest.mark.parametrize(
    "command", ["vim x", "nano", "gdb a.out", "bash -i", "emacs -nw x", "/usr/bin/vim x", "screen", "tmux new"]
)
def test_what_would_wait_for_a_person_is_denied(permissions: Permissions, command: str) -> None:
    assert isinstance(decide(permissions, command), Deny)


@pytest.mark.requirement("tools.bash.deny.standalone")
@pytest.mark.parametrize("name", ["python", "python3", "ipython", "bash", "sh", "su", "nohup"])
def test_a_bare_interpreter_is_denied_and_one_with_work_to_do_asks(permissions: Permissions, name: str) -> None:
    assert isinstance(decide(permissions, name), Deny)
    assert isinstance(decide(permissions, f"ls; {name}"), Deny)
    for command in (f"{name} x.py", f"{name} <<'E'\nprint(1)\nE", f"echo x | {name}"):
        assert isinstance(decide(permissions, command), Ask), command


@pytest.mark.parametrize(("general", "profile"), [("never", "always"), ("ask", "never"), ("always", "never")])
def test_a_profile_may_narrow_and_never_undo_what_is_forbidden(
    permissions: Permissions, general: Level, profile: Level
) -> None:
    permissions.levels = {"bash": general}
    assert isinstance(decide(permissions, "ls", RunTerms(levels={"bash": profile})), Deny)


def test_a_level_of_a_profile_wins_over_the_general_one(permissions: Permissions) -> None:
    permissions.levels = {"bash": "always"}
    assert isinstance(decide(permissions, "make"), Allow)
    assert isinstance(decide(permissions, "make", RunTerms(levels={"bash": "ask"})), Ask)


def test_what_a_long_denied_command_says_reaches_the_model(permissions: Permissions) -> None:
    denied = decide(permissions, "vim x")
    assert denied == Deny(reason="Not run: vim is on the denylist: it would wait for input.")


@pytest.mark.requirement("tools.bash.deny.reason")
def test_a_command_on_the_users_own_denylist_is_denied_with_that_reason(permissions: Permissions) -> None:
    permissions.lists = {"bash": ToolLists(deny=("make",))}
    for command in ("make all", "ls && make"):
        denied = decide(permissions, command)
        assert denied == Deny(reason="Not run: make is on the denylist of the user's settings.")


@pytest.mark.attack("shell commands", always=True)
@pytest.mark.parametrize(
    "command",
    [
        "cat ../secret > copy",
        "echo x > .git/hooks/pre-commit",
        "echo $(cat .env)",
        "(cat '.e'nv)",
        "for f in a b; do cp $f ../there; done",
        "cp .env copy &",
        'cat "$HOME/.ssh/id_rsa"',
        "f() { cat ~/.netrc; }; f",
    ],
)
@pytest.mark.parametrize("terms", EVERY_MODE)
def test_a_place_that_is_named_asks_each_time_in_whatever_a_command_nests(
    permissions: Permissions, terms: RunTerms, command: str
) -> None:
    decision = decide(permissions, command, terms)
    assert isinstance(decision, Ask), decision
    assert decision.remember_as is None


@pytest.mark.parametrize("terms", EVERY_MODE)
def test_a_repository_that_names_a_program_asks_each_time(permissions: Permissions, terms: RunTerms) -> None:
    git = ["git", "-C", str(permissions.workspace.root)]
    subprocess.run([*git, "init", "-q"], check=True)
    assert isinstance(decide(permissions, "git status", terms), Allow)
    subprocess.run([*git, "config", "core.fsmonitor", "./watcher"], check=True)
    decision = decide(permissions, "git status", terms)
    assert isinstance(decision, Ask)
    assert "core.fsmonitor" in decision.reason
    assert decision.remember_as is None


def test_behind_a_command_that_changes_the_shell_no_allowlist_counts(permissions: Permissions) -> None:
    permissions.lists = {"bash": ToolLists(allow=("make", "alias", "hash"))}
    assert isinstance(decide(permissions, "make"), Allow)
    for command in ("alias make=./evil; make", "hash -p ./evil make && make"):
        assert asked(permissions, command).remember_as is None


def test_what_other_branches_hold_is_not_shown_unasked(permissions: Permissions) -> None:
    git = ["git", "-C", str(permissions.workspace.root), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in ("init -q", "add README.md", "commit -qm one", "switch -qc keys", "add -f .env", "commit -qm two"):
        subprocess.run([*git, *words.split()], check=True)
    subprocess.run([*git, "switch", "-q", "-"], check=True)
    (permissions.workspace.root / ".env").write_text("KEY=secret\n")
    assert isinstance(decide(permissions, "git log -p"), Allow)
    for options in ("--all", "--branches", "-g"):
        assert "every branch" in asked(permissions, f"git log -p {options}").reason


def test_of_several_commands_the_strictest_verdict_counts(permissions: Permissions) -> None:
    def verdict(*commands: str) -> ShellVerdict:
        return judge_all(commands, permissions.workspace, ToolLists(deny=("rm",)).for_shell())

    assert verdict("ls", "pwd").verdict == "allow"
    assert verdict("ls", "make").verdict == verdict("make", "ls").verdict == "ask"
    assert verdict("rm x", "make", "ls").verdict == verdict("ls", "make", "rm x").verdict == "deny"
    assert verdict("make", "cat /etc/passwd").rule == "place"
    assert verdict("make", "make all").remember_as is None


def test_a_work_tree_whose_repository_does_not_know_it_is_not_read_unasked(
    permissions: Permissions, tmp_path: Path
) -> None:
    git = ["git", "-C", str(tmp_path / "other"), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    (tmp_path / "other").mkdir()
    for words in ("init -q", "commit -q --allow-empty -m one", f"worktree add -q {tmp_path / 'linked'}"):
        subprocess.run([*git, *words.split()], check=True)
    linked = Permissions(Workspace(tmp_path / "linked"))
    assert isinstance(decide(linked, "git status"), Allow)
    (permissions.workspace.root / ".git").write_text((tmp_path / "linked" / ".git").read_text())
    assert "does not know this folder" in asked(permissions, "git status").reason


def test_a_folder_that_only_looks_like_a_repository_is_none_for_any_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path)], check=True)
    seen = subprocess.run(
        ["git", "rev-parse"], cwd=tmp_path, env={**os.environ, **git_environment()}, capture_output=True, text=True
    )
    assert seen.returncode != 0
    assert "safe.bareRepository" in seen.stderr


def test_what_is_nested_and_names_no_such_place_runs_where_the_shell_is_allowed(permissions: Permissions) -> None:
    allowed = RunTerms(allowed=frozenset({"bash"}))
    for command in (
        "for f in *; do wc -l $f >/dev/null 2>/dev/null; done",
        "cat > notes.txt <<'EOF'\nread ../this and /that\nEOF",
        "curl -s https://example.org/x > page.html",
        "(/usr/bin/env make all) &",
    ):
        assert decide(permissions, command, allowed) == Allow(rule="--yes"), command


WITHOUT_GRAMMAR = """
import sys
import subprocess
import sys
from pathlib import Path
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.tools.bash import BashTool, BashArgs, ShellEnvironment
from vibe_jupyter.files.workspace import Workspace

sys.modules["tree_sitter_bash"] = None
workspace = Workspace(Path.cwd())
tool = BashTool(ShellEnvironment(workspace, {}, {}))
for terms in (RunTerms(), RunTerms(allowed=frozenset({"bash"}))):
    print(repr(Permissions(workspace).decide(tool, BashArgs(command="ls"), terms)))
"""


def test_where_the_grammar_cannot_be_loaded_every_command_asks(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_GRAMMAR], cwd=tmp_path, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    assert all(line.startswith("Ask(") and "tree_sitter_bash cannot be loaded" in line for line in lines), lines


@pytest.mark.parametrize(
    "search", ["grep hello README.md", "rg hello", "egrep hello README.md; fgrep a README.md; rg hello"]
)
def test_searches_alone_are_kept_from_protected_files_by_functions_of_the_shell(
    permissions: Permissions, search: str
) -> None:
    guard = search_guard(search, permissions.workspace)
    assert set(guard) == {f"BASH_FUNC_{name}%%" for name in ("grep", "egrep", "fgrep", "rg")}
    assert all(".env" in function for function in guard.values())
    assert search_guard("ls -l; cat README.md", permissions.workspace) == {}


def test_ripgrep_asks_where_settings_of_git_bring_a_protected_file_back(permissions: Permissions) -> None:
    exclude = permissions.workspace.root / ".git" / "info" / "exclude"
    exclude.parent.mkdir(parents=True)
    exclude.write_text("*.log\n")
    assert isinstance(decide(permissions, "rg hello"), Allow)
    exclude.write_text("!.env\n")
    assert "may find lines of .env" in asked(permissions, "rg hello").reason
