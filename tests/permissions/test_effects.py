"""What the parts of shell commands do, in words and levels: a corpus, and how parts hang together."""

import os
import subprocess
from pathlib import Path

import pytest

from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.permissions.rules import ToolLists
from vibe_jupyter.permissions.shell.command_parts import WordOfPart
from vibe_jupyter.permissions.shell.effect_programs import explain_program
from vibe_jupyter.permissions.shell.effect_words import Finding, PartCall
from vibe_jupyter.permissions.shell.effects import PartEffect, explain_command, worst_risk
from vibe_jupyter.permissions.shell.measuring import Meter
from vibe_jupyter.protocol import Allow, Ask, Deny, Level
from vibe_jupyter.tools.bash import BashArgs, BashTool, ShellEnvironment

RM = BashArgs(command="rm notes.txt")

IGNORED_TOO = "Deletes the files that git doesn't track, ignored ones too; they don't go to the trash"
CORPUS = [
    ("ls -la", "low", "Lists the folder"),
    ("cat notes.txt", "low", "Shows `notes.txt`"),
    ("cat .env", "high", "Shows `.env`"),
    ("head -n 3 /etc/hostname", "low", "Shows the beginning of `/etc/hostname`"),
    ("grep -rn TODO src", "low", "Searches `src` for `TODO`"),
    ("grep -A 5 -e TODO .env", "high", "Searches `.env` for `TODO`"),
    ("wc -l notes.txt", "low", "Counts what is in `notes.txt`"),
    ("sort -o notes.txt notes.txt", "medium", "Runs `sort` with `-o`, which changes files"),
    ("echo hello", "low", "Prints text"),
    (
        "echo hello > notes.txt",
        "medium",
        "Writes what `echo` prints to `notes.txt`, whose content (250 bytes) is replaced",
    ),
    ("echo hello >> new.txt", "medium", "Appends what `echo` prints to `new.txt`"),
    ("> new.txt", "medium", "Creates or empties `new.txt`"),
    ("rm notes.txt", "high", "Deletes 1 file (250 bytes); it doesn't go to the trash"),
    ("rm -rf cache raw", "high", "Deletes 2 folders with 16 files (2.0 MB); they don't go to the trash"),
    ("rm -rf cache missing", "high", "Deletes 1 folder with 14 files (14.0 kB); they don't go to the trash"),
    ("rm -f *.tmp", "high", "Deletes 1 file (1 byte); it doesn't go to the trash"),
    ('rm -rf "$HOME/x"', "high", 'Deletes `"$HOME/x"`; what is deleted doesn\'t go to the trash'),
    ("rm nowhere.txt", "high", "Deletes `nowhere.txt`, which isn't there now"),
    ("mv notes.txt old.txt", "medium", "Moves `notes.txt` to `old.txt`"),
    ("cp notes.txt cache/", "medium", "Copies `notes.txt` to `cache/`"),
    ("cp .env backup", "high", "Copies `.env` to `backup`"),
    ("mkdir -p out", "medium", "Creates the folder `out`"),
    ("touch a b c d e", "medium", "Creates `a`, `b`, `c` and 2 more if missing"),
    ("chmod -R 700 cache", "medium", "Changes who may read, change or run `cache` and everything in it (`700`)"),
    ("chown -R me cache", "medium", "Changes who owns `cache` and everything in it (`me`)"),
    ("ln -s a b", "medium", "Creates a link: `a` and `b`"),
    ("sed -i s/a/b/ notes.txt", "medium", "Edits `notes.txt` in place"),
    ("sed -n 1,5p notes.txt", "low", "Shows lines of `notes.txt`"),
    ("sed s/a/b/ notes.txt", "low", "Shows `notes.txt`, with changes"),
    ("awk '{print $1}' notes.txt", "low", "Shows parts of `notes.txt`"),
    ("tee -a log.txt", "medium", "Appends its input to `log.txt`"),
    ("tee notes.txt", "medium", "Writes its input to `notes.txt`"),
    ("tar xzf data.tgz", "medium", "Unpacks `data.tgz`; files of the same names are replaced"),
    ("tar -czf data.tgz raw", "medium", "Packs files into `data.tgz`"),
    ("tar tf data.tgz", "low", "Lists what is in `data.tgz`"),
    ("tar --create --file data.tgz raw", "medium", "Packs files into `data.tgz`"),
    ("tar --delete -f data.tgz raw", "medium", "Vibe can't tell what this does"),
    ("tar tf data.tgz -I ./run", "medium", "Vibe can't tell what this does"),
    ("sed '1e id' notes.txt", "medium", "Vibe can't tell what this does"),
    ("sed s/a/b/wout notes.txt", "medium", "Vibe can't tell what this does"),
    ("sort --compress=./run notes.txt", "medium", "Vibe can't tell what this does"),
    ("uniq notes.txt out.txt", "medium", "Vibe can't tell what this does"),
    ("date 01010000", "medium", "Vibe can't tell what this does"),
    ("python run.py --version", "medium", "Runs `run.py`, which can do anything"),
    ("python --version", "low", "Shows the version of python"),
    ("git -c core.pager=./run log", "medium", "Vibe can't tell what this does"),
    ("git --no-pager -C . log -5", "low", "Shows what git knows (`git log`)"),
    ("git diff --output=notes.txt", "medium", "Vibe can't tell what this does"),
    ("git grep -O./run x", "medium", "Vibe can't tell what this does"),
    ("git config --unset user.name", "medium", "Changes settings of the repository (`git config`)"),
    ("git config --global user.name", "low", "Shows what git knows (`git config`)"),
    ("git config --bool core.bare", "low", "Shows what git knows (`git config`)"),
    ("git config --bool core.bare true", "medium", "Changes settings of the repository (`git config`)"),
    ("git reflog drop main", "high", "Deletes commits that are on no branch"),
    ("git stash list", "low", "Shows changes that were put aside"),
    ("dd if=/dev/zero of=/dev/sda", "high", "Overwrites the device `/dev/sda`"),
    ("kill -9 4242", "medium", "Stops the process `4242` at once, without letting it save anything"),
    ("kill -KILL 1", "medium", "Stops the process `1` at once, without letting it save anything"),
    ("kill -s KILL 1", "medium", "Stops the process `1` at once, without letting it save anything"),
    ("kill -ALRM 1", "medium", "Stops the process `1`"),
    ("kill -l", "low", "Lists signals"),
    ("kill 5 -l", "medium", "Stops the process `5`"),
    ("killall -SIGKILL x", "medium", "Stops every program that matches `x` at once, without letting it save anything"),
    ("pkill -SIGKILL x", "medium", "Stops every program that matches `x` at once, without letting it save anything"),
    ("pkill -fl python", "medium", "Stops every program that matches `python`"),
    ("history -c", "medium", "Deletes commands from the history of the shell"),
    ("time -o notes.txt ls", "medium", "Lists the folder"),
    ("time --output=notes.txt rm notes.txt", "high", "Deletes 1 file (250 bytes); it doesn't go to the trash"),
    ("time ls -o", "low", "Lists the folder"),
    ("uniq notes.txt", "low", "Shows `notes.txt` without repeated lines"),
    ("tar --list --file=data.tgz", "low", "Lists what is in `data.tgz`"),
    ("pkill python", "medium", "Stops every program that matches `python`"),
    ("truncate -s 0 notes.txt", "high", "Cuts `notes.txt` to another size; what is cut off is lost"),
    ("shutdown now", "high", "Turns this computer off or restarts it"),
    ("find . -name '*.tmp'", "low", "Searches for files below `.`"),
    ("find . -name '*.tmp' -delete", "high", "Deletes 1 file (1 byte) below `.`; they don't go to the trash"),
    ("find cache -mtime +7 -delete", "high", "Deletes the files it finds below `cache`; they don't go to the trash"),
    ("find . -name '*.tmp' -exec rm {} ;", "high", "Deletes the files it finds below `.`; they don't go to the trash"),
    (
        "find . -type f -print0 | xargs -0 rm",
        "high",
        "Deletes every file that the part before names; they don't go to the trash",
    ),
    ("git status", "low", "Shows what git knows (`git status`)"),
    ("git add .", "medium", "Marks `.` for the next commit"),
    ("git commit -m fix", "medium", "Records a commit"),
    ("git commit --amend", "medium", "Replaces your newest commit with another one"),
    ("git checkout main", "medium", "Switches to `main`"),
    ("git checkout -- notes.txt", "high", "Throws away your uncommitted changes to `notes.txt`"),
    ("git restore notes.txt", "high", "Throws away your uncommitted changes to `notes.txt`"),
    ("git reset --hard HEAD~1", "high", "Throws away all uncommitted changes and moves your branch to `HEAD~1`"),
    (
        "git clean -fdx",
        "high",
        IGNORED_TOO,
    ),
    ("git clean -fdx -ebin", "high", IGNORED_TOO),
    ("git clean -fdx -en", "high", IGNORED_TOO),
    ("git clean -fdx -e -n", "high", IGNORED_TOO),
    ("git clean -fdx -- -n", "high", IGNORED_TOO),
    ("git clean -n --no-dry-run -f", "high", "Deletes the files that git doesn't track; they don't go to the trash"),
    ("git clean -fX", "high", "Deletes the files that git ignores; they don't go to the trash"),
    ("git clean -e x -nfd", "low", "Lists files that git doesn't track"),
    ("git submodule foreach 'rm -rf src'", "medium", "Runs `rm -rf src` in each submodule"),
    ("git submodule foreach --recursive git pull", "medium", "Runs `git pull` in each submodule"),
    ("git worktree remove x", "medium", "Deletes the working tree `x`, unless it has changes that aren't committed"),
    ("git worktree remove -f x", "high", "Deletes the working tree `x`, with changes that aren't committed"),
    ("git gc", "medium", "Packs the repository and deletes old commits that are on no branch"),
    ("git gc --prune=now", "high", "Packs the repository and deletes commits that are on no branch"),
    ("git am x.patch", "medium", "Records the commits of the patch `x.patch` on your branch"),
    ("git am --abort", "medium", "Ends or continues applying patches"),
    ("git clean -n", "low", "Lists files that git doesn't track"),
    ("git push origin main", "high", "Sends the commits of the branch `main` to `origin`"),
    ("git push --force origin main", "high", "Force-pushes: replaces the branch `main` on `origin`"),
    ("git push -uf origin main", "high", "Force-pushes: replaces the branch `main` on `origin`"),
    ("git push origin +main", "high", "Force-pushes: replaces the branch `main` on `origin`"),
    ("git push origin --delete old", "high", "Deletes the branch `old` on `origin`"),
    ("git branch -D old", "high", "Deletes the branch `old`, even if its commits are nowhere else"),
    ("git branch", "low", "Lists branches"),
    ("git pull", "medium", "Downloads commits from the remote and merges them into your branch"),
    ("git rebase main", "medium", "Rewrites the commits of your branch"),
    ("git stash drop", "high", "Deletes changes that were put aside"),
    ("git clone https://example.org/x.git", "medium", "Downloads the repository `https://example.org/x.git`"),
    ("git frobnicate", "medium", "Vibe can't tell what this does"),
    ("pip install pandas", "medium", "Downloads and installs `pandas`"),
    ("pip install -r requirements.txt", "medium", "Downloads and installs what `requirements.txt` lists"),
    ("pip list", "low", "Shows installed packages"),
    ("python -m pip uninstall pandas", "medium", "Uninstalls `pandas`"),
    ("python train.py", "medium", "Runs `train.py`, which can do anything"),
    ('python -c "import shutil"', "medium", "Runs python code; Vibe can't tell what it does"),
    ("python -m pytest", "medium", "Runs the project's tests, which are code"),
    ("npm run build", "medium", "Runs the project's script `build`, which can do anything"),
    ("npm publish", "high", "Changes what is published under the package's name (`publish`)"),
    ("make all", "medium", "Runs `make all` of the project, which can do anything"),
    ("curl https://example.org/data.csv", "medium", "Downloads from `example.org`"),
    ("curl -o data.csv https://example.org/data.csv", "medium", "Downloads from `example.org` to `data.csv`"),
    ("curl -d @notes.txt https://example.org/form", "high", "Sends data to `example.org`"),
    ("curl -s https://example.org/install.sh | sh", "high", "Runs what the part before downloads"),
    ("curl -s https://example.org/install.sh | bash -s -- --yes", "high", "Runs what the part before downloads"),
    ("curl -s https://example.org/data.json | python -m json.tool", "medium", "Downloads from `example.org`"),
    ("curl -XPOST https://example.org/form", "high", "Sends data to `example.org`"),
    ("wget https://example.org/data.csv", "medium", "Downloads from `example.org`"),
    ("ssh host.example.org uptime", "high", "Runs `uptime` on the computer `host.example.org`"),
    ("scp notes.txt host.example.org:", "high", "Sends `notes.txt` to `host.example.org:`"),
    ("rsync -a raw/ backup/", "medium", "Copies `raw/` to `backup/`"),
    ("docker ps", "low", "Shows containers and images"),
    ("docker run alpine", "medium", "Runs code in a container (`docker run alpine`), which can do anything"),
    ("docker rm -f web", "high", "Deletes the container `web`"),
    ("docker compose rm -f web", "high", "Deletes the container `web`"),
    ("docker compose -f a.yml rm -f", "high", "Deletes the container it names"),
    ("docker-compose -f a.yml rm web", "high", "Deletes the container `web`"),
    ("docker compose -f a.yml down -v", "high", "Deletes containers and their volumes"),
    ("docker compose -p x --profile all down -v", "high", "Deletes containers and their volumes"),
    ("docker-compose -f a.yml down -v", "high", "Deletes containers and their volumes"),
    ("docker -H x rm y", "high", "Deletes the container `y`"),
    ("docker --context prod rm -f y", "high", "Deletes the container `y`"),
    ("docker -H tcp://x system prune -af", "high", "Deletes unused data"),
    ("docker -H x push y", "high", "Publishes `y`"),
    ("docker --context ps rm y", "high", "Deletes the container `y`"),
    ("docker config rm x", "high", "Deletes the config `x`"),
    ("docker login -u x", "high", "Signs in to a registry"),
    ("docker push me/web", "high", "Publishes `me/web`"),
    ("kubectl get pods", "medium", "Shows data of a service (`kubectl get pods`)"),
    ("kubectl -n shop get pods", "medium", "Shows data of a service (`kubectl -n shop get pods`)"),
    ("kubectl apply -f x.yaml", "high", "Changes something on a service others may use (`kubectl apply -f x.yaml`)"),
    ("terraform apply plan", "high", "Changes something on a service others may use (`terraform apply plan`)"),
    ("kubectl delete pod web", "high", "Deletes something on a service others may use (`kubectl delete pod web`)"),
    ("aws s3 rm s3://bucket/x", "high", "Deletes something on a service others may use (`aws s3 rm s3://bucket/x`)"),
    ("systemctl restart nginx", "medium", "Changes services of this computer: `nginx` (`restart`)"),
    ('psql -c "DROP TABLE x"', "high", "Deletes data of a database"),
    (
        "sudo rm -rf cache",
        "high",
        "Deletes 1 folder with 14 files (14.0 kB); they don't go to the trash, as administrator of this computer",
    ),
    ("sudo apt install jq", "high", "Downloads and installs `jq`, as administrator of this computer"),
    ("env FOO=1 make", "medium", "Runs `make` of the project, which can do anything"),
    ("timeout 5 rm notes.txt", "high", "Deletes 1 file (250 bytes); it doesn't go to the trash"),
    ('bash -c "rm notes.txt"', "high", "Deletes 1 file (250 bytes); it doesn't go to the trash"),
    ("bash setup.sh", "medium", "Runs the script `setup.sh`, which can do anything"),
    ('eval "$CODE"', "medium", "Vibe can't tell what this does"),
    ("./run.sh", "medium", "Runs the program `./run.sh`, which can do anything"),
    ("PATH=. ls", "medium", "Vibe can't tell what this does"),
    ("FOO=1", "low", "Sets `FOO`"),
    ("export FOO=1", "low", "Sets `FOO`"),
    ("frobnicate --all", "medium", "Vibe can't tell what this does"),
    ("echo 'not closed", "medium", "Vibe can't tell what this does"),
    ("$TOOL --all", "medium", "Vibe can't tell what this does"),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = tmp_path_factory.mktemp("project")
    for name, count, size in (("cache", 14, 1_000), ("raw", 2, 1_000_000)):
        (root / name).mkdir()
        for number in range(count):
            (root / name / f"{number}.bin").write_bytes(b"x" * size)
    (root / "notes.txt").write_text("x" * 250)
    (root / ".env").write_text("K=1\n")
    (root / "old.tmp").write_text("a")
    return Workspace(root)


def effects(command: str, project: Workspace) -> tuple[PartEffect, ...]:
    return explain_command(command, project, measure=True)


@pytest.mark.parametrize(("command", "risk", "text"), CORPUS, ids=[command for command, _, _ in CORPUS])
def test_a_command_is_explained_in_words_with_its_level(command: str, risk: str, text: str, project: Workspace) -> None:
    found = effects(command, project)

    assert worst_risk(found) == risk
    assert text in [effect.text for effect in found if effect.risk == risk]


def test_the_corpus_has_every_level_and_many_commands() -> None:
    assert len(CORPUS) >= 60
    assert {risk for _, risk, _ in CORPUS} == {"low", "medium", "high"}


def test_every_part_of_a_compound_command_stands_for_itself(project: Workspace) -> None:
    found = effects("cd cache && rm -rf ../raw 0.bin; git push --force", project)

    assert [(effect.part, effect.risk, effect.tag) for effect in found] == [
        ("cd cache", "low", "Harmless"),
        ("rm -rf ../raw 0.bin", "high", "Can't be undone"),
        ("git push --force", "high", "Affects others"),
    ]
    assert found[1].text == "Deletes 1 folder with 3 files (2.0 MB); they don't go to the trash"
    assert "raw: 2 files, 2.0 MB" in found[1].detail
    assert "only if the part before works (`&&`)" in found[1].detail
    assert "even if the part before fails (`;`)" in found[2].detail
    assert [effect.action for effect in found] == ["", "delete 3 files", "force-push"]


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("ls || rm notes.txt", ["ls", "rm notes.txt"]),
        ("echo $(rm notes.txt)", ["rm notes.txt", "echo $(rm notes.txt)"]),
        ('echo "now `rm notes.txt`"', ["rm notes.txt", 'echo "now `rm notes.txt`"']),
        ("for i in 1 2; do rm $i; done", ["rm $i"]),
        ("if true; then rm notes.txt; fi", ["true", "rm notes.txt"]),
        ("clean() { rm notes.txt; }; clean", ["rm notes.txt", "clean"]),
        ("(cd cache; rm 0.bin) &", ["cd cache", "rm 0.bin"]),
        ("! rm notes.txt", ["rm notes.txt"]),
        ("bash -c 'ls; rm notes.txt'", ["ls", "rm notes.txt"]),
        ("cat <<END > out.txt\n$(rm notes.txt)\nEND\nls", ["cat", "rm notes.txt", "ls"]),
        ("cat <<END | sh\nrm notes.txt\nEND", ["cat", "sh"]),
    ],
)
def test_parts_are_found_wherever_the_shell_would_run_them(command: str, parts: list[str], project: Workspace) -> None:
    found = effects(command, project)

    assert [effect.part for effect in found] == parts
    assert worst_risk(found) == ("high" if any(part.startswith("rm") for part in parts) else "medium")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("for i in 1 2; do touch $i; done", ["Repeated in a loop."]),
        ("for i in 1 2; do sh -c 'touch b'; done", ["Repeated in a loop."]),
        ("sh -c 'touch b; for i in 1 2; do touch $i; done'", ["", "Repeated in a loop."]),
        ("if true; then touch a; fi", ["Runs only under a condition."] * 2),
        ("if true; then eval 'touch c'; fi", ["Runs only under a condition."] * 2),
        ("eval 'if true; then touch c; fi'", ["Runs only under a condition."] * 2),
    ],
)
def test_a_part_in_a_loop_or_under_a_condition_says_so(command: str, said: list[str], project: Workspace) -> None:
    found = [effect.detail for effect in effects(command, project)]
    assert [detail.rpartition("(`;`). ")[2] for detail in found] == said


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("dd if=x of=notes.txt", "`notes.txt` exists (250 bytes): its content is replaced."),
        ("dd if=x of=notes.txt conv=notrunc", ""),
        ("ls | xargs -n 1 rm -rf", "Runs `rm -rf` for each. Gets what the part before prints (`|`)."),
        ("time -p -o notes.txt ls", "The time that it takes is written to `notes.txt`."),
    ],
)
def test_a_detail_says_which_file_is_replaced_and_what_runs(command: str, said: str, project: Workspace) -> None:
    assert effects(command, project)[-1].detail == said


def test_nothing_is_deleted_or_written_by_explaining(project: Workspace) -> None:
    before = sorted((str(path), path.stat().st_size) for path in project.root.rglob("*"))
    for command, _, _ in CORPUS:
        effects(command, project)
    assert sorted((str(path), path.stat().st_size) for path in project.root.rglob("*")) == before


@pytest.mark.parametrize("meter", [Meter(entries_left=5), Meter(ends=0.0)], ids=["entries", "time"])
def test_counting_ends_at_a_limit_and_says_so(meter: Meter, project: Workspace) -> None:
    rm = PartCall(
        [WordOfPart("rm", "rm", True), WordOfPart("cache", "cache", True)], project, project.root, meter, never
    )
    found = explain_program(rm)
    assert found.text.startswith("Deletes 1 folder with more than ")
    assert "over " in found.text


def never(call: PartCall) -> Finding:
    raise AssertionError(call)


def test_a_link_is_deleted_and_not_what_it_leads_to(project: Workspace, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(project.root / "raw")
    (found,) = explain_command("rm -rf link", Workspace(tmp_path), measure=True)
    assert found.text.startswith("Deletes 1 file (")


def git(folder: Path, *words: str) -> None:
    who = {f"GIT_{role}_{what}": "a@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", *words], cwd=folder, env={**os.environ, **who}, check=True, capture_output=True, timeout=30)


def test_a_forced_push_says_that_commits_may_be_lost_and_where(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", ".")
    git(tmp_path, "config", "remote.origin.url", "https://me:key@example.org/acme/penguins.git")

    (found,) = explain_command("git push --force", Workspace(tmp_path), measure=True)

    assert found.text == "Force-pushes: replaces the branch `main` on `example.org/acme/penguins`"
    assert found.detail == "Commits that exist only there would be lost."


def bash(project: Workspace) -> BashTool:
    return BashTool(ShellEnvironment(project, {}, {}))


def test_what_weighs_high_is_asked_each_time_whatever_was_allowed_before(project: Workspace) -> None:
    permissions = Permissions(project)
    permissions.grant("bash: rm notes.txt")
    permissions.grant("bash")

    for terms in (RunTerms(), RunTerms(allowed=frozenset({"bash"}))):
        decision = permissions.decide(bash(project), RM, terms)
        assert isinstance(decision, Ask)
        assert decision.remember_as is None
        assert decision.reason.startswith("runs a shell command: deletes notes.txt")
    denied = permissions.decide(bash(project), RM, RunTerms(attended=False, allowed=frozenset({"bash"})))
    assert isinstance(denied, Deny)
    assert "--yes and saved permissions do not cover it" in denied.reason


@pytest.mark.parametrize(
    ("levels", "lists", "terms"),
    [
        ({"bash": "always"}, {}, RunTerms()),
        ({}, {"bash": ToolLists(allow=("rm notes.txt",))}, RunTerms()),
        ({}, {}, RunTerms(attended=False, approve_all=True)),
    ],
    ids=["always", "allowlist", "auto_approve"],
)
def test_settings_of_the_users_own_cover_what_weighs_high(
    levels: dict[str, Level], lists: dict[str, ToolLists], terms: RunTerms, project: Workspace
) -> None:
    assert isinstance(Permissions(project, levels, lists).decide(bash(project), RM, terms), Allow)
