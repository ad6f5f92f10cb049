"""What runs unasked and what does not, rule by rule."""

import os
from pathlib import Path

import pytest

from tests.permissions.conftest import Judge
from tests.permissions.shell_tree import run_git
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.shell.command_line import COMMANDS_LIMIT, LENGTH_LIMIT
from vibe_jupyter.permissions.shell.judge import ShellState, judge_command
from vibe_jupyter.permissions.shell.patterns import ShellLists

ALLOWED = """\
ls *.md
ls src/*.py src/[mu]*.py
ls nosuchfile 2>/dev/null || echo missing
ls > /dev/null 2>&1
ls -la # how much is it
cat @PARENT@/proj/README.md
cat -- README.md
cat link_in
cat < /dev/null
cat README.md | grep hello | wc -l
cat "data/with space.csv"
cat nosuchfile.txt
echo 'a; b && c $(d)' "\\$HOME"
find . -name '*.py' -not -path './.git/*' | wc -l
find . \\( -name '*.py' -o -name '*.md' \\) -printf '%p\\n'
grep -rn TODO src
grep -rn hello src 2>/dev/null
grep -rn hello . --exclude='.env*'
grep -r --include=*.md hello .
grep -rn foo 2>/dev/null src
grep -rn 'TODO\\|FIXME' src
grep -rnE '^import os|^def main' .
grep -rn 'def .*main' --include='*.py' .
sort --version
grep -n "hello$" README.md
grep -c . README.md
grep -e hello -e TODO -A2 README.md
sort README.md | uniq -c | sort -rn | head -5
sort -t, -k2 'data/with space.csv'
stat -c '%s %n' README.md
tail -n +2 README.md
tree -L 1 -a -I '.git|node_modules'
diff -u README.md src/main.py | head -20
git status -sb
git status -uno
git log --oneline --graph --all -n 10
git log --pretty=format:'%h %an %s' --since='1 week ago' -- src
git log -p -1
git log -p src/main.py
git diff main...side --stat
git diff HEAD -- src/main.py
git diff -- '*.py'
git diff -- '*.env'
git log -p
git log -p -- .
git show HEAD~1
git grep hello
git log -S sk- --oneline
! ls nosuch
time ls
for i in 1 2; do echo $i; done
for f in src/*.py; do echo "== $f"; head -n 3 "$f"; done
if [ -f README.md ]; then cat README.md; elif test -d src; then ls src; else echo none; fi
{ ls; pwd; }
echo {1..9} src/{main,util}.py
cd src && cat ../README.md
cd @PARENT@/proj && ls
cd src; ls; cd ..; cat README.md
cat "$PWD/README.md"; echo $? >&2
wc -l < README.md
command -v python
printf '%-10s|%3d' a 1
find . -name '*.py' -not -path './.git/*' | head -n 20 | xargs wc -l
find src -name '*.py' -exec grep -n import {} +
grep -rl hello --include='*.md' . | xargs wc -l
sed -n '1,20p' README.md
sed -n '/def main/,/return/p;$p' src/main.py
sed 2q README.md
sed 's/hello/bye/g' README.md
sed -E 's/^(hello) +/\\1-/gp' README.md
awk '{print $1}' README.md
awk -F, 'NR > 1 && NR <= 3 {print NR ": " $NF}' 'data/with space.csv'
awk '/^hello/' README.md
jq -r '.scripts.test | length' package.json
jq '.rows[] | .name' package.json
rg -n 'def main' -g '*.py'
python --version; node -v; pip list --format=json; pip show numpy
[ -f README.md ] && [ $? -eq 0 ]; test -z ""
ps aux | head -n 5; df -h .; free -h; nproc
git -C src status
git -C src log --oneline -2
git stash list
git reflog -3
git remote -v
git grep -n hello -- '*.md'
git grep -n hello -- . ':!.env'
git log -p -- src/main.py
git log -p -- . ':(exclude).env'
git log -S main --oneline -- src
git diff --cached
git ls-tree -r HEAD
git show HEAD~1 --stat
git show HEAD@{0} --stat
git branch -a
git --no-pager log -3""".splitlines()

NOT_ALLOWED = {
    "place": """\
cat *
cat .e*
cat ?env
cat [.]env
cat ./data/../.env
ls .*
ls *
ls link_dir_out/
cat '../outside/secret.txt'
echo a=~/x
ls > /dev/nullx
cat < .env
cat src/link_up/outside/secret.txt
cat pipe
cat README.md/
cat nosuch/../.env
cat '~/.ssh/id_rsa'
echo ../*
echo link_dir_out/*
grep -r KEY .
grep -r . .
grep -rv zzz .
grep -rnE 'zzzz|KEY' .
grep -rFE 'zzz|K[E]Y' .
grep -rn '[K]EY' .
grep -rn API_KEY --include='.e*' .
grep -f ../outside/secret.txt README.md
grep -f.env README.md
grep --file=.env README.md
find . -newer ../outside/secret.txt
find . -samefile .env
diff -rN src data
diff -r src src/link_up
diff . link_out
stat ../outside
git show HEAD:.env
git show HEAD:.env -- HEAD:.env
git diff HEAD -- .env
git diff -- ../outside
git diff README.md ../outside/secret.txt
cd ..
cd ../outside && cat secret.txt
cd link_dir_out
grep -q nothing README.md && cd src; cat ../README.md
grep -R x src
cat < .env
wc -l < ../outside/secret.txt
for f in README.md .env; do cat $f; done
cat {README.md,.env}
cat $PWD/../outside/secret.txt
find . -type f | xargs cat
find . -name '.en*' -exec cat {} \\;
grep -r --include='\\.env' A .
grep -r --exclude=x.md --include='*.py' KEY .
rg -g '.en*' A
rm .git/config
cp README.md ../outside/x
pytest --basetemp=/etc
python ../outside/x.py""",
    "option": """\
sort README.md --outp=PWNED
sort -S1k --compress-program=./evil.sh big.txt
tree -Po '*' PWNED
tree -l
tail -5f README.md
tail --foll README.md
file -C -m mymagic
find . -name x -o -fls out
grep -P '(a+)+$' big.txt
ls -L link_in
stat -f .
wc --files0-from=list
git log --outpu=PWNED
git log --format=%h%G?
git log --format='%<(9999999)%h'
git log --show-signature
git status --ignore-submodules=none
git log --help
git status -v
git log --format=%+G?
git log --date=format:%1500000000d
sed -i s/a/b/ README.md
jq -n env
rg --pre=./evil.sh hello README.md
printf -v PATH ./bin
test -v 'a[$(touch PWNED)]'
python -m pip list
pip list --outdated
awk -f evil.awk README.md
awk -v OFS=, '{print $1}' README.md
sed -e p README.md
[ -f README.md -a -v x ]
find . -name '*.md' | xargs -I README.md -L 1 cat README.md
find . -name '*.md' | xargs -IREADME.md -n2 cat README.md""",
    "operand": """\
find . -name '*.md' | xargs uniq
find . -name '*.md' -exec uniq {} +
uniq README.md PWNED
grep -E '(a|b)\\1' README.md
grep -E '((a{1,999}){1,999})' README.md
date 01010000
grep -E 'a{99}{99}{99}' README.md
sed -n '1e touch PWNED' README.md
sed 's/a/b/w PWNED' README.md
sed 's/a/b/e' README.md
sed 's/a[/b/' README.md
sed 's/[^]/A]/;s/;1e touch PWNED;#/z/' README.md
sed -E 's/((a{255}){255}){255}/x/' README.md
sed 's/./&&&&&&&&&&&&&&&&&&&&/g; s/./&&&&&&&&&&&&&&&&&&&&/g' README.md
sed 's/./&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&/' README.md
sed -n '1w PWNED' README.md
awk 'BEGIN{system("touch PWNED")}'
awk '{print | "sh"}' README.md
awk '{print > "PWNED"}' README.md
awk '{print $1}' -F, README.md
awk '{print $1}' FS=, README.md
awk '{s += $1} END {print s}' README.md
jq '.[] | .[] | .[]' package.json
jq 'input' package.json
jq '$ENV' package.json
printf '%n' 'a[$(touch PWNED)]'
printf '%1000000000d' 1
echo /etc | xargs ls
date +%1500000000N
which ./evil.sh
git branch new
git tag v1
git diff -- ':(glob).e*'
git show :README.md
git show HEAD:src/main.py
git blame HEAD~1 src/main.py
git ls-files '*.py' | xargs grep -n import
find . -name '*.md' | xargs -I cat cat README.md
grep -l x 'a README.md b' 2>&1 | xargs cat
sed 's/[/A/;/]/p;s/w src/g' README.md
tail +1f README.md
find . -name '*.md' | xargs awk
find . -name '*.md' | xargs -I x sed -n x README.md
grep -lc hello README.md | xargs cat
grep -l hello - < README.md | xargs cat""",
    "name": """\
'ls'
seq 1 3
tac README.md
cat README.md | xxd
gawk 1 README.md
/bin/ls
LS
env ls
git -p log
less README.md
find . -name '*.py' -exec touch {} \\;
find . -name '*.md' | xargs touch
if ls; then touch PWNED; fi
env
printenv HOME
find src -name util -exec git -C {} status \\;
find src -name util -exec diff -r {} data \\;
! cd src && cd .; ls
cd src < nosuch; ls""",
    "input": """\
cat
cat - README.md
grep x
sort
head -n 5
tr a b
ls; wc""",
    "expansion": """\
find . -name '*.md' -exec grep {} README.md \\;
echo ~root
for PATH in ./bin; do ls; done
for f in touch; do $f PWNED; done
echo "$HOME"
FOO=1 ls
FOO+=1 ls
grep REA* README.md
cat $@
true {PATH}<README.md; ls
true {PATH}>/dev/null; ls""",
    "redirection": """\
ls >| PWNED
cat <<< x
ls 12>/dev/null
ls |& cat""",
    "syntax": """\
ls &
(ls)
ls ;; pwd
ls &&
grep -c $ README.md
for i in 1; do ls""",
    "characters": ["ls\u00a0-l", "ls\x0b", "echo a\x1b[2K", "echo \u202eabc", "ls \u2028 pwd", "ls {\U0010ffff}"],
}
CASES = [
    (rule, command)
    for rule, commands in NOT_ALLOWED.items()
    for command in (commands.splitlines() if isinstance(commands, str) else commands)
]


@pytest.mark.parametrize("command", ALLOWED)
def test_what_only_reads_inside_the_project_does_not_ask(decide: Judge, command: str) -> None:
    verdict = decide(command)
    assert verdict.verdict == "allow", verdict


@pytest.mark.attack("shell commands", always=True)
@pytest.mark.parametrize(("rule", "command"), CASES)
def test_what_is_not_known_to_only_read_asks_and_the_rule_is_named(decide: Judge, rule: str, command: str) -> None:
    verdict = decide(command)
    assert (verdict.verdict, verdict.rule) == ("ask", rule), verdict


def test_a_quoted_tilde_is_a_folder_of_that_name(fresh_project: Path) -> None:
    (fresh_project / "~").mkdir()
    (fresh_project / "~" / "notes.md").write_text("notes\n")
    assert judge_command("cat '~/notes.md'", Workspace(fresh_project)).verdict == "allow"


@pytest.mark.attack("shell commands", always=True)
def test_a_folder_behind_a_link_is_not_entered_unasked(fresh_project: Path) -> None:
    (fresh_project / "link_src").symlink_to("src")
    verdict = judge_command("cd link_src && cat main.py", Workspace(fresh_project))
    assert (verdict.verdict, verdict.rule) == ("ask", "operand")


@pytest.mark.attack("shell commands", always=True)
@pytest.mark.parametrize("command", ["ls\0", "cat \ud800"])
def test_what_no_shell_takes_is_denied_with_a_word(decide: Judge, command: str) -> None:
    verdict = decide(command)
    assert (verdict.verdict, verdict.rule) == ("deny", "cannot-run")


@pytest.mark.attack("shell commands", always=True)
@pytest.mark.parametrize("command", ["ls (", 'ls "', "ls && ", "ls <<EOF\nx", "", " \n "])
def test_what_does_not_parse_asks_whatever_is_on_the_allowlist(decide: Judge, command: str) -> None:
    assert decide(command, ShellLists(allow=("ls", "ls *"))).verdict == "ask"


def test_a_command_that_is_too_long_or_has_too_many_parts_asks(decide: Judge) -> None:
    assert decide("echo " + "a" * (LENGTH_LIMIT - 5)).verdict == "allow"
    assert decide("echo " + "a" * LENGTH_LIMIT).rule == "length"
    assert decide("; ".join(["pwd"] * COMMANDS_LIMIT)).verdict == "allow"
    assert decide("; ".join(["pwd"] * (COMMANDS_LIMIT + 1))).rule == "length"


@pytest.mark.parametrize(
    "body",
    [
        "cat <<'EOF'\n$(touch PWNED)\nEOF",
        'cat <<-"E"\n\t`x`\n\tE\n',
        "cat <<\\E | wc -l\n$x\nE\npwd",
        "cat <<'E' # c\nE",
    ],
)
def test_a_here_document_with_a_quoted_end_is_text(decide: Judge, body: str) -> None:
    assert decide(body).verdict == "allow"


@pytest.mark.attack("shell commands", always=True)
@pytest.mark.parametrize(
    "body",
    [
        "cat <<EOF\n$(x)\nEOF",
        "cat <<'EOF'\nx",
        "cat <<'A' <<'B'\nA\nB",
        "cat <<'E' 'a\nb'\nE",
        "cat <<'E'\nE\ntouch PWNED",
    ],
)
def test_other_here_documents_ask(decide: Judge, body: str) -> None:
    assert decide(body).verdict == "ask"


def test_letters_of_other_scripts_are_read_alike_only_where_the_locale_says_so(shell_project: Path) -> None:
    workspace = Workspace(shell_project)
    for locale, verdict in {"": "allow", "C": "allow", "fr_FR.UTF-8": "allow", "ja_JP.SJIS": "ask"}.items():
        assert judge_command("cat données.csv", workspace, ShellState(path="/bin", locale=locale)).verdict == verdict


def test_names_in_letters_of_other_scripts_are_looked_up_inside_a_group_too(fresh_project: Path) -> None:
    (fresh_project / "ссылка").symlink_to("../outside/secret.txt")
    shell = ShellState(path="/bin", locale="C.UTF-8", lists=ShellLists(deny=("échelle *",)))
    workspace = Workspace(fresh_project)
    assert judge_command("(cat ссылка)", workspace, shell).rule == "place"
    assert judge_command("(ls; échelle 日本)", workspace, shell).rule == "denylist"


@pytest.mark.attack("shell commands", always=True)
def test_a_program_of_the_project_that_hides_a_known_one_asks(shell_project: Path) -> None:
    workspace = Workspace(shell_project)
    for path in (f"{shell_project}/bin:/bin", "bin:/bin", f"{shell_project}/src/../bin:/bin"):
        verdict = judge_command("ls", workspace, ShellState(path=path))
        assert (verdict.verdict, verdict.rule) == ("ask", "name")
    assert judge_command("ls", workspace, ShellState(path=f"/bin:{shell_project}/bin")).verdict == "allow"
    assert judge_command("echo x; pwd", workspace, ShellState(path=f"{shell_project}/bin")).verdict == "allow"


@pytest.mark.attack("shell commands", always=True)
def test_names_that_look_like_options_are_not_taken_for_names(fresh_project: Path) -> None:
    workspace = Workspace(fresh_project)
    (fresh_project / "data" / "-n").write_text("")
    assert judge_command("cat data/*", workspace).verdict == "allow"
    (fresh_project / "-oPWNED").write_text("")
    assert judge_command("sort -- *WNED", workspace).verdict == "allow"
    verdict = judge_command("sort *WNED", workspace)
    assert (verdict.verdict, verdict.rule) == ("ask", "operand")
    (fresh_project / "--include=x.md").write_text("")
    assert judge_command("grep -r --include=*.md hello src", workspace).verdict == "ask"


@pytest.mark.attack("shell commands", always=True)
@pytest.mark.parametrize(
    "command",
    [
        "tac .env",
        "xxd -p .e*",
        "od -c < .env",
        "strings link_out",
        "find . -type f | xargs md5sum -z",
        "find . -exec tac {} +",
    ],
)
def test_what_a_program_without_a_rule_names_is_judged_all_the_same(decide: Judge, command: str) -> None:
    assert (decide(command).verdict, decide(command).rule) == ("ask", "place")


@pytest.mark.parametrize(("pattern", "allowed"), [("xxd -p README.md", True), ("xxd", False), ("seq", False)])
def test_an_allowlist_names_a_program_that_mostly_reads_with_all_its_arguments(
    decide: Judge, pattern: str, allowed: bool
) -> None:
    command = "seq 3" if pattern == "seq" else "xxd -p README.md"
    assert (decide(command, ShellLists(allow=(pattern,))).verdict == "allow") is allowed


@pytest.mark.attack("shell commands", always=True)
@pytest.mark.parametrize(
    "command",
    [
        "find . -type f -not -path './data/*' -exec cat {} \\;",
        "find sub -type f -not -path './data/*' -exec cat {} \\;",
        "find . -type f ! -not -path '*/data/*' -exec cat {} \\;",
        "find . -type f -print -name '*.md' | xargs cat",
        "find . -type f -print0 -name '*.md' | xargs -0 cat",
        "cd empty && find ../sub -name data -exec grep -r KEY {} \\;",
    ],
)
def test_a_protected_file_that_the_tests_of_find_do_not_leave_out_asks(tmp_path: Path, command: str) -> None:
    for folder in ("data", "empty", "sub/data"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "README.md").write_text("hello")
    (tmp_path / "sub/data/.env").write_text("KEY=1")
    verdict = judge_command(command, Workspace(tmp_path))
    assert (verdict.verdict, verdict.rule) == ("ask", "place")
    for left_out in ("*/data/*", "./sub/*"):
        passing = f"find . -type f -not -path '{left_out}' -name '*.md' -print | xargs cat"
        assert judge_command(passing, Workspace(tmp_path)).verdict == "allow"


@pytest.mark.attack("shell commands", always=True)
def test_a_verdict_says_nothing_about_what_a_secret_holds(fresh_project: Path) -> None:
    workspace = Workspace(fresh_project)
    commands = [
        "grep -rF MISTRAL_API_KEY=sk-E .",
        "grep -rn TODO .",
        "grep -rn 'def zzz' .",
        "rg hello",
        "git grep zzz",
    ]
    verdicts: list[list[str]] = []
    for content in ("MISTRAL_API_KEY=sk-ENV", "TODO zzz", "", "hello"):
        (fresh_project / ".env").write_text(content)
        verdicts.append([judge_command(command, workspace).verdict for command in commands])
    assert verdicts == [verdicts[0]] * len(verdicts)
    assert verdicts[0] == ["ask", "ask", "allow", "allow", "allow"]


def test_a_folder_too_large_to_look_through_asks(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for part in range(11):
        (project / f"d{part}").mkdir(parents=True)
        for name in range(1_000):
            os.mknod(project / f"d{part}" / str(name))
    assert judge_command("grep -r x .", Workspace(project)).verdict == "ask"
    assert judge_command("grep -r x d0", Workspace(project)).verdict == "allow"
    assert judge_command("ls d*", Workspace(project)).verdict == "allow"
    assert judge_command("ls d*/*", Workspace(project)).verdict == "ask"


def test_the_repository_that_holds_the_project_is_judged(fresh_project: Path) -> None:
    (fresh_project / "README.md").write_text("changed outside the notebook's folder\n", encoding="utf-8")
    workspace = Workspace(fresh_project / "src")
    for command in ("git status", "git log --oneline -3", "git diff --stat", "git diff -- .", "git blame main.py"):
        assert judge_command(command, workspace).verdict == "allow", command
    for command in ("git show HEAD:README.md", "git diff -- ../README.md", "git log -p -- ':/*.md'"):
        assert judge_command(command, workspace).rule == "place", command


def test_the_repository_of_the_whole_home_folder_asks(fresh_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(fresh_project))
    assert judge_command("git status", Workspace(fresh_project / "src")).rule == "repository"


def test_a_linked_work_tree_and_a_submodule_are_judged_by_the_folder_that_holds_them(fresh_project: Path) -> None:
    parent = fresh_project.parent
    run_git(fresh_project, parent, "worktree", "add", "-q", "../linked")
    run_git(
        fresh_project, parent, "-c", "protocol.file.allow=always", "submodule", "add", "-q", "../outside/repo", "sub"
    )
    for folder in (parent / "linked", fresh_project / "sub", fresh_project):
        for command in ("git status", "git log --oneline -3", "git diff --stat"):
            assert judge_command(command, Workspace(folder)).verdict == "allow", (folder, command)
    (parent / "elsewhere").mkdir()
    (parent / "linked" / ".git").rename(parent / "elsewhere" / ".git")
    assert judge_command("git log", Workspace(parent / "elsewhere")).rule == "repository"


def test_git_where_there_is_no_repository_just_says_so(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    assert judge_command("git status", workspace).verdict == "allow"
    assert judge_command("git diff a b", workspace).verdict == "ask"


def test_an_ordinary_clone_does_not_ask(fresh_project: Path) -> None:
    parent = fresh_project.parent
    run_git(parent, parent, "clone", "-q", str(fresh_project), "clone")
    run_git(parent / "clone", parent, "config", "user.name", "a")
    (parent / "clone" / ".gitattributes").write_text("*.py diff=python\n*.png binary\n* text=auto\n")
    assert judge_command("git status && git diff && git log -3", Workspace(parent / "clone")).verdict == "allow"


@pytest.fixture
def tracked_secret(tmp_path: Path) -> Path:
    """A repository that keeps a file with secrets, changed once."""
    project = tmp_path / "kept"
    project.mkdir()
    run_git(project, tmp_path, "init", "-q", "-b", "main", ".")
    for value in ("one", "two", "three"):
        (project / ".enc").write_text(value)
        (project / ".env").write_text(f"KEY={value}")
        run_git(project, tmp_path, "add", "-A")
        run_git(project, tmp_path, "-c", "user.name=a", "-c", "user.email=a@x", "commit", "-q", "-m", value)
    return project


@pytest.mark.parametrize("version", [2, 4])
def test_a_damaged_index_never_breaks_the_decision(tracked_secret: Path, version: int) -> None:
    run_git(tracked_secret, tracked_secret.parent, "update-index", "--index-version", str(version))
    index, workspace = tracked_secret / ".git" / "index", Workspace(tracked_secret)
    raw = index.read_bytes()
    for length in range(1, len(raw), 3):
        index.write_bytes(raw[:length])
        assert judge_command("git status && git log -p", workspace).verdict in ("ask", "allow"), length
    for at in range(8, len(raw), 3):
        index.write_bytes(raw[:at] + b"\xff" * (len(raw) - at))
        assert judge_command("git status && git log -p", workspace).verdict in ("ask", "allow"), at
