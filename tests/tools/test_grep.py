"""grep: the same matches from ripgrep and from Python, bounded, and nothing secret unasked."""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.patience import patient
from tests.tiers import further
from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.search import SHARED_HERE
from vibe_jupyter.files.search_rules import SearchQuery
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.protocol import Allow, Ask, Resource, TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext
from vibe_jupyter.tools.grep import GrepArgs, GrepOptions, GrepTool


@pytest.fixture(params=["ripgrep", "python"])
def engine_name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setenv("PATH", "/nowhere")
    elif shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    return request.param


@pytest.fixture
def grep(workspace: Workspace, context: ToolContext, engine_name: str):
    tool = GrepTool(workspace)

    async def call(**args: object) -> ToolResult:
        return await asyncio.wait_for(tool.run(GrepArgs.model_validate(args), context), 30)

    return call


def fill(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def matches(result: ToolResult) -> list[str]:
    (part,) = result.parts
    assert isinstance(part, TextPart)
    found = part.text.partition("matches:\n")[2]
    return found.split("\n") if found else []


@pytest.mark.requirement("tools.grep.result.fields", "tools.grep.backend.order")
async def test_matches_are_told_by_path_line_and_text_in_path_order(project: Path, grep):
    fill(project, {"b.py": "x\ndef one(): pass\n", "a/c.py": "def two(): pass", "a.txt": "nothing"})

    result = await grep(pattern=r"def \w+\(")

    assert result.parts[0].text == (
        "match_count: 2\nwas_truncated: false\nmatches:\na/c.py:1:def two(): pass\nb.py:2:def one(): pass"
    )
    assert result.summary == "2 matches in 2 files"
    assert result.details == {"match_count": 2, "was_truncated": False}


@pytest.mark.requirement("tools.grep.result.empty")
async def test_no_match_is_a_success_with_count_zero(project: Path, grep):
    fill(project, {"a.txt": "abc"})

    result = await grep(pattern="xyz")

    assert not result.is_error
    assert result.parts[0].text == "match_count: 0\nwas_truncated: false"
    assert result.summary == "no matches"


@pytest.mark.requirement("tools.grep.result.empty")
@pytest.mark.parametrize("pattern", ["a(", "[z-a]", "*", "(?P<n>a)(?P<n>b)"])
async def test_a_wrong_pattern_is_an_error_that_says_so(project: Path, grep, pattern: str):
    fill(project, {"a.txt": "abc"})

    with pytest.raises(ToolError, match="is not a valid regular expression"):
        await grep(pattern=pattern)


@pytest.mark.requirement("tools.grep.path.missing")
async def test_a_path_that_does_not_exist_is_an_error_and_relative_ones_start_at_the_project(project: Path, grep):
    fill(project, {"src/a.py": "hit", "b.py": "hit"})

    with pytest.raises(ToolError, match=r"'srcs' does not exist. Did you mean src\?"):
        await grep(pattern="hit", path="srcs")

    assert matches(await grep(pattern="hit", path="src")) == ["src/a.py:1:hit"]
    assert matches(await grep(pattern="hit", path=str(project / "src"))) == ["src/a.py:1:hit"]


@pytest.mark.requirement("tools.grep.args.fields")
async def test_only_the_pattern_is_required():
    assert GrepArgs(pattern="x").model_dump() == {
        "pattern": "x",
        "path": ".",
        "max_matches": None,
        "use_default_ignore": True,
    }
    for wrong in ({}, {"pattern": ""}, {"pattern": "x", "max_matches": 0}, {"pattern": "x", "flags": "i"}):
        with pytest.raises(ValidationError):
            GrepArgs.model_validate(wrong)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("error", ["Error here", "an error", "ERROR"]),
        ("Error", ["Error here"]),
        (r"\bERR\w+", ["ERROR"]),
        (r"\Serror|\Wq", []),
        ("^an", ["an error"]),
        ("here$", ["Error here"]),
        (r"err(?=or$)", ["an error", "ERROR"]),
        (r"(l)\1", ["all"]),
        ("日本", ["日本語"]),
        ("\xdcBER", ["\xdcBER"]),
        ("\xfcber", ["\xdcBER"]),
        ("-e", ["-e --pre=x"]),
        ("--pre", ["-e --pre=x"]),
        (r"\$\(x\)", ["$(x) `y` 'z' \"w\""]),
        ("`y` 'z' \"", ["$(x) `y` 'z' \"w\""]),
    ],
)
async def test_patterns_mean_the_same_in_both_engines(project: Path, grep, pattern: str, found: list[str]):
    lines = ["Error here", "an error", "ERROR", "all", "日本語", "\xdcBER", "-e --pre=x", "$(x) `y` 'z' \"w\""]
    fill(project, {"a.txt": "\r\n".join(lines) + "\r\n"})

    result = await grep(pattern=pattern)

    assert [line.split(":", 2)[2] for line in matches(result)] == found


@pytest.mark.requirement("tools.grep.ignore.defaults")
async def test_environments_caches_builds_hidden_and_binary_files_are_left_out(project: Path, grep):
    folders = [".venv", "venv", ".env", "env", "node_modules", ".git", "__pycache__", ".mypy_cache", "build", ".idea"]
    fill(project, {f"deep/{folder}/x.txt": "hit" for folder in folders})
    fill(project, {"x.pyc": "hit", ".hidden": "hit", "bin.dat": b"hit\n\0\n", "my.egg-info/a": "hit", "a.txt": "hit"})

    assert matches(await grep(pattern="hit")) == ["a.txt:1:hit"]


@pytest.mark.requirement("tools.grep.ignore.off")
async def test_without_the_default_exclusions_all_text_but_secrets_is_searched(project: Path, grep):
    fill(project, {"build/x.txt": "hit", ".hidden": "hit", "a.log": "hit", ".gitignore": "*.log\n", ".env": "hit"})
    fill(project, {"bin.dat": b"hit\n\0\n"})

    result = await grep(pattern="hit", use_default_ignore=False)

    assert matches(result) == [".hidden:1:hit", "a.log:1:hit", "build/x.txt:1:hit"]


@pytest.mark.requirement("tools.grep.ignore.files")
@pytest.mark.parametrize(
    ("ignores", "found"),
    [
        ({".gitignore": "*.log\n/top\n"}, ["a.txt", "sub/a.txt", "sub/top"]),
        ({".gitignore": "sub/\n"}, ["a.log", "a.txt", "top"]),
        ({".ignore": "*.txt\n", ".gitignore": "!a.txt\n"}, ["a.log", "sub/b.log", "sub/top", "top"]),
        ({".ignore": "!*.txt\n", ".gitignore": "*\n"}, ["a.txt"]),
        ({".vibeignore": "*.txt\n"}, ["a.log", "sub/b.log", "sub/top", "top"]),
        ({".vibeignore": "sub/a.txt\n", "sub/.gitignore": "b.*\n"}, ["a.log", "a.txt", "sub/top", "top"]),
        (
            {".gitignore": "*.txt\n", "sub/.gitignore": "!a.txt\n"},
            ["a.log", "sub/a.txt", "sub/b.log", "sub/top", "top"],
        ),
        ({".gitignore": "!.kept\n"}, [".kept", "a.log", "a.txt", "sub/a.txt", "sub/b.log", "sub/top", "top"]),
    ],
)
async def test_ignore_files_are_heeded(project: Path, grep, ignores: dict[str, str], found: list[str]):
    names = ["a.txt", "a.log", "top", ".kept", "sub/a.txt", "sub/b.log", "sub/top"]
    fill(project, dict.fromkeys(names, "hit") | ignores)

    result = await grep(pattern="^hit$")

    assert [line.split(":")[0] for line in matches(result)] == found


async def test_a_folder_that_is_ignored_is_searched_when_it_is_named(project: Path, grep):
    fill(project, {"build/out/x.txt": "hit", "build/out/x.log": "hit", ".gitignore": "build/\n*.log\n"})

    assert matches(await grep(pattern="hit", path="build/out")) == ["build/out/x.txt:1:hit"]
    assert matches(await grep(pattern="hit", path="build/out/x.log")) == ["build/out/x.log:1:hit"]


@pytest.mark.requirement("tools.grep.path.outside")
async def test_protected_files_are_never_searched_unless_named(project: Path, grep):
    secrets = [".env", ".env.local", "server.PEM", "x.key", "id_rsa", ".ssh/config", "conf/.netrc"]
    secrets += [".env~", ".env.swp", ".#.env", "#x.key#", "credentials.json.orig", ".x.pem.swp", "x.pem.bak~"]
    fill(project, dict.fromkeys(secrets, "hit") | {"a.txt": "hit"})

    for use_default_ignore in (True, False):
        assert matches(await grep(pattern="hit", use_default_ignore=use_default_ignore)) == ["a.txt:1:hit"]
    assert matches(await grep(pattern="hit", path="server.PEM")) == ["server.PEM:1:hit"]


@pytest.mark.requirement("tools.grep.path.outside")
async def test_links_are_not_followed_out_of_the_project(project: Path, grep):
    fill(project.parent / "outside", {"secret.txt": "hit"})
    fill(project, {"a.txt": "hit"})
    (project / "link").symlink_to("../outside")
    (project / "file.txt").symlink_to("../outside/secret.txt")

    assert matches(await grep(pattern="hit")) == ["a.txt:1:hit"]


@pytest.mark.requirement("tools.grep.path.outside")
async def test_a_place_outside_is_asked_for_and_named_whole(project: Path, grep, workspace: Workspace):
    fill(project.parent / "outside", {"a.txt": "hit"})

    result = await grep(pattern="hit", path="../outside")

    assert matches(result) == [f"{project.parent}/outside/a.txt:1:hit"]
    touched = GrepTool(workspace).touches(GrepArgs(pattern="hit", path="../outside"))
    assert touched == (Resource(kind="path", value="../outside", access="read"),)
    (project / "link").symlink_to("../outside")
    permissions = Permissions(workspace)
    for path in ("../outside", "link", str(project.parent / "outside" / "a.txt")):
        decision = permissions.decide(GrepTool(workspace), GrepArgs(pattern="hit", path=path), RunTerms())
        assert isinstance(decision, Ask), path
    assert isinstance(permissions.decide(GrepTool(workspace), GrepArgs(pattern="hit"), RunTerms()), Allow)


@pytest.mark.requirement("tools.grep.limit.matches")
@pytest.mark.parametrize(
    ("lines", "asked", "count", "truncated"),
    [(100, None, 100, False), (101, None, 100, True), (3, 2, 2, True), (3, 3, 3, False)],
)
async def test_one_match_more_than_allowed_says_truncated(
    project: Path, grep, lines: int, asked: int | None, count: int, truncated: bool
):
    fill(project, {"a.txt": "hit\n" * lines})

    result = await grep(pattern="hit", max_matches=asked)

    assert result.details == {"match_count": count, "was_truncated": truncated}
    assert len(matches(result)) == count
    assert ("narrow the pattern or the path" in result.parts[0].text) is truncated


@pytest.mark.requirement("tools.grep.limit.matches")
@pytest.mark.parametrize("lines", [1, 3, SHARED_HERE // 200 + 1])
async def test_the_first_match_of_each_file_comes_before_the_second_of_any_in_path_order(
    project: Path, grep, lines: int
):
    names = [f"{folder}{sub}/f{number}.txt" for folder in "ba" for sub in ("", ".d", "/c") for number in range(34)]
    fill(project, dict.fromkeys(names, "hit\n" * lines))

    found = matches(await grep(pattern="hit"))

    searched = min(len(names), SHARED_HERE // lines)
    assert found == [f"{'/'.join(path)}:1:hit" for path in sorted(name.split("/") for name in names)[:searched]][:100]


@pytest.mark.parametrize("rows", [300, 3 * SHARED_HERE])
async def test_a_data_file_with_many_matches_leaves_room_for_those_of_other_files(project: Path, grep, rows: int):
    code = {f"src/{name}.py": "price = read()\n" * 3 for name in ("a", "b", "c")}
    fill(project, {"data.csv": "price,1\n" * rows, "more.csv": "price,2\n" * rows, **code})

    result = await grep(pattern="price")

    counted = Counter(line.partition(":")[0] for line in matches(result))
    assert counted == {"data.csv": 46, "more.csv": 45, "src/a.py": 3, "src/b.py": 3, "src/c.py": 3}
    assert result.details["was_truncated"] is True
    assert matches(result)[0] == "data.csv:1:price,1"


async def test_the_settings_bound_a_search(project: Path, workspace: Workspace, context: ToolContext):
    fill(project, {"a.txt": "hit\n" * 10})
    few = GrepTool(workspace, GrepOptions(default_max_matches=3))
    short = GrepTool(workspace, GrepOptions(max_output_bytes=30))

    assert matches(await few.run(GrepArgs(pattern="hit"), context)) == [f"a.txt:{n}:hit" for n in (1, 2, 3)]
    assert matches(await short.run(GrepArgs(pattern="hit"), context)) == ["a.txt:1:hit", "a.txt:2:hit"]
    assert GrepOptions() == GrepOptions(default_max_matches=100, max_output_bytes=64_000, default_timeout=60)


async def test_output_is_bounded_in_bytes(project: Path, grep):
    fill(project, {"a.txt": ("hit" + "\xe9" * 200 + "\n") * 1_000})

    result = await grep(pattern="hit", max_matches=1_000)

    found = matches(result)
    assert result.details["was_truncated"] is True
    assert 60_000 < len("\n".join(found).encode()) <= 64_000


async def test_a_long_line_is_shown_around_its_match(project: Path, grep):
    fill(project, {"a.js": "a" * 300_000 + "NEEDLE" + "b" * 300_000 + "\n"})

    (line,) = matches(await grep(pattern="NEEDLE"))

    assert line == "a.js:1:…" + "a" * 100 + "NEEDLE" + "b" * 394 + "…"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("d\xe9j\xe0 hit\n".encode("latin-1"), "d\xe9j\xe0 hit"),
        ("\ufeffhit d\xe9\n".encode("utf-16-le"), "hit d\xe9"),
        ("\ufeffhit\n".encode(), "hit"),
        (b"hit\r\n", "hit"),
        (b"a:b:hit", "a:b:hit"),
    ],
)
async def test_accents_and_line_ends_survive(project: Path, grep, raw: bytes, text: str):
    fill(project, {"t.txt": raw})

    assert matches(await grep(pattern="hit")) == [f"t.txt:1:{text}"]


async def test_a_byte_order_mark_is_no_part_of_the_first_line(project: Path, grep):
    fill(project, {"t.txt": "\ufeffhit\n".encode()})

    assert matches(await grep(pattern="^hit")) == ["t.txt:1:hit"]


@pytest.mark.parametrize("name", ["-x.txt", "--pre=sh", "a b.txt", "$(x).txt", "日本.txt", "a'b\".txt"])
async def test_odd_names_are_searched_and_named(project: Path, grep, name: str):
    fill(project, {name: "hit"})

    assert matches(await grep(pattern="hit")) == [f"{name}:1:hit"]
    assert matches(await grep(pattern="hit", path=name)) == [f"{name}:1:hit"]


async def test_settings_of_ripgrep_are_not_read(project: Path, grep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    settings = tmp_path / "ripgreprc"
    settings.write_text("--files-with-matches\n--pre=/bin/false\n", encoding="utf-8")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(settings))
    fill(project, {"a.txt": "hit"})

    assert matches(await grep(pattern="hit")) == ["a.txt:1:hit"]


async def test_python_modules_in_the_project_are_not_imported_by_the_search(project: Path, grep):
    hostile = "raise SystemExit('imported from the project')"
    fill(project, {"json.py": hostile, "re.py": hostile, "pathspec.py": hostile, "stat.py": hostile})

    assert matches(await grep(pattern="^hit")) == []


NAMES = ["a", "b.txt", "c.py", "build", "logs", "keep", "x.log", ".hidden", "data", "d.PEM", ".env", "src", "y.txt"]
PATTERNS = ["*.txt", "/a", "a/", "build/", "!keep", "!.hidden", "logs/*", "!logs/keep", "**/x.log", "src/**", "*.py"]
PATTERNS += ["!c.py", "#c", "data", "/data/b.txt", "k??p", "[ab]*", "!*.txt", "keep/", "src/*/y.txt", "*", "!src/"]


def grow(folder: Path, chance: random.Random, depth: int = 0) -> None:
    """A tree of names that matter to ignore rules, with such rules in it."""
    folder.mkdir(exist_ok=True)
    for name in chance.sample(NAMES, chance.randint(2, 7)):
        if depth < 3 and "." not in name and chance.random() < 0.6:
            grow(folder / name, chance, depth + 1)
        else:
            (folder / name).write_text("hit\n", encoding="utf-8")
    for name in (".gitignore", ".ignore", ".rgignore"):
        if chance.random() < 0.3:
            rules = "\n".join(chance.sample(PATTERNS, chance.randint(1, 4)))
            (folder / name).write_text(rules, encoding="utf-8")


@pytest.mark.requirement("tools.grep.ignore.files", "tools.grep.backend.order")
@pytest.mark.parametrize("seed", [0, 1, 2, *map(further, range(3, 8))])
async def test_both_engines_leave_out_the_same_files(
    project: Path, workspace: Workspace, context: ToolContext, monkeypatch: pytest.MonkeyPatch, seed: int
):
    if shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    chance = random.Random(seed)
    grow(project, chance)
    folders = sorted(str(path) for path in project.rglob("*") if path.is_dir())
    asked = [GrepArgs(pattern="^hit", path=path) for path in (".", *chance.sample(folders, min(2, len(folders))))]

    by_ripgrep = [await GrepTool(workspace).run(args, context) for args in asked]
    monkeypatch.setenv("PATH", "/nowhere")
    by_python = [await GrepTool(workspace).run(args, context) for args in asked]

    assert by_python == by_ripgrep


@pytest.mark.requirement("tools.grep.limit.time")
async def test_a_search_that_takes_too_long_is_ended_with_an_error(
    project: Path, workspace: Workspace, context: ToolContext, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", "/nowhere")
    fill(project, {"a.txt": "a" * 40 + "!"})

    tool = GrepTool(workspace, GrepOptions(default_timeout=1))

    with pytest.raises(ToolError, match="took longer than 1 seconds"):
        await asyncio.wait_for(tool.run(GrepArgs(pattern="(a+)+$"), context), 20)

    assert await children_running() == []


async def test_cancelling_a_search_ends_its_process(
    project: Path, workspace: Workspace, context: ToolContext, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", "/nowhere")
    fill(project, {"a.txt": "a" * 40 + "!"})
    running = asyncio.create_task(GrepTool(workspace).run(GrepArgs(pattern="(a+)+$"), context))
    async with asyncio.timeout(20):
        while not await children_running():
            await asyncio.sleep(0.01)

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)
    assert await children_running() == []


async def test_a_search_that_the_system_kills_is_an_error_and_not_a_search_without_matches(
    project: Path, workspace: Workspace, context: ToolContext, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", "/nowhere")
    fill(project, {"a.txt": "a" * 40 + "!"})
    running = asyncio.create_task(GrepTool(workspace).run(GrepArgs(pattern="(a+)+$"), context))
    async with asyncio.timeout(20):
        while not (children := await children_running()):
            await asyncio.sleep(0.01)

    os.kill(children[0], signal.SIGKILL)

    with pytest.raises(ToolError, match=r"broke off.*signal 9.*not all was searched"):
        await asyncio.wait_for(running, 5)


async def test_a_folder_deeper_than_a_path_may_be_hides_no_match(
    project: Path, workspace: Workspace, context: ToolContext, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", "/nowhere")
    fill(project, {"a.txt": "here", "z.txt": "here"})
    names = ["n" * 200] * 25
    with contextlib.ExitStack() as at_end:
        folder = os.open(project, os.O_RDONLY)
        for name in names:
            at_end.callback(os.close, folder)
            os.mkdir(name, dir_fd=folder)
            folder = os.open(name, os.O_RDONLY, dir_fd=folder)
        at_end.callback(os.close, folder)
        with open(os.open("deep.txt", os.O_WRONLY | os.O_CREAT, dir_fd=folder), "w", encoding="utf-8") as file:
            file.write("here")

    found = await asyncio.wait_for(GrepTool(workspace).run(GrepArgs(pattern="here"), context), 30)

    assert matches(found) == ["a.txt:1:here", f"{'/'.join(names)}/deep.txt:1:here", "z.txt:1:here"]


def test_a_file_that_is_one_line_larger_than_memory_is_searched(tmp_path: Path):
    fill(tmp_path, {"a.json": b"x" * 96_000_000 + b" here", "z.txt": "here"})
    query = SearchQuery("here", str(tmp_path), use_default_ignore=True, most=10)
    limit = "import resource, runpy; resource.setrlimit(resource.RLIMIT_AS, (160_000_000, 160_000_000)); "
    worker = f"{limit}runpy.run_module('vibe_jupyter.files.search_worker', run_name='__main__')"

    done = subprocess.run(
        [sys.executable, "-c", worker],
        input=json.dumps({**query._asdict(), "descriptor": None}).encode(),
        capture_output=True,
        timeout=patient(30.0),
        check=True,
    )

    assert [line.partition(b"\0")[0] for line in done.stdout.splitlines()] == [
        str(tmp_path / name).encode() for name in ("a.json", "z.txt")
    ]


async def test_children_get_no_keys_from_the_environment(
    project: Path, workspace: Workspace, context: ToolContext, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("MISTRAL_API_KEY", "planted")
    fill(project, {"a.txt": "a" * 40 + "!"})
    running = asyncio.create_task(GrepTool(workspace).run(GrepArgs(pattern="(a+)+$"), context))
    try:
        async with asyncio.timeout(20):
            while not (children := await children_running()):
                await asyncio.sleep(0.01)
        environment = Path(f"/proc/{children[0]}/environ").read_bytes()
    finally:
        running.cancel()
        await asyncio.wait([running], timeout=5)

    assert b"PYTHONPATH" in environment
    assert b"planted" not in environment


async def children_running() -> list[int]:
    """Search workers of this process that are alive."""
    if sys.platform != "linux":
        pytest.skip("looks into /proc")
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread ends meanwhile, or a child does
            children = (task / "children").read_text().split()
            found += [int(child) for child in children if is_search_worker(child)]
    return found


def is_search_worker(process: str) -> bool:
    try:
        return b"vibe_jupyter.files.search_worker" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
