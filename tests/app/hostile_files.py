"""Files of an untrusted folder that are to stall a prompt: endless, deep, quadratic, many, or no files at all."""

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

Plant = Callable[[Path], None]
KB: Final = 1024
MB: Final = 1024 * KB
CONFIG: Final = ".vibe/config.toml"
SERVERS: Final = ".mcp.json"
AGENTS: Final = "AGENTS.md"
AGENT: Final = ".vibe/agents/one.toml"
SKILL: Final = ".vibe/skills/one/SKILL.md"
HOOKS: Final = ".vibe/hooks.toml"
JSON_HOOKS: Final = ".vibe/hooks.json"
CLAUDE: Final = ".claude/settings.json"
FRONT: Final = "---\nname: one\ndescription: {0}\n---\nText.\n"
PARTS: Final = 12_000  # of a dotted key
NESTED: Final = 20_000  # levels of arrays or tables
MANY: Final = 6_000  # files or folders, more than are looked at
DEEP: Final = 900  # folders in one another, as far as a path may be long


def text(name: str, content: str) -> Plant:
    def plant(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")

    return plant


def raw(name: str, content: bytes) -> Plant:
    def plant(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    return plant


def link(name: str, target: str) -> Plant:
    def plant(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target)

    return plant


def pipe(name: str) -> Plant:
    def plant(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(folder / name)

    return plant


def listening(name: str) -> Plant:
    def plant(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        here = os.getcwd()
        os.chdir((folder / name).parent)  # the path of a socket may be 107 bytes long
        try:
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(Path(name).name)
        finally:
            os.chdir(here)

    return plant


def sparse(name: str, size: int) -> Plant:
    def plant(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with (folder / name).open("wb") as file:
            file.truncate(size)

    return plant


def directory(name: str) -> Plant:
    return lambda folder: (folder / name).mkdir(parents=True)


def many(name: str, ending: str, count: int = MANY) -> Plant:
    def plant(folder: Path) -> None:
        (folder / name).mkdir(parents=True)
        for number in range(count):
            (folder / name / f"n{number}{ending}").touch()

    return plant


def many_folders(name: str, count: int = MANY) -> Plant:
    def plant(folder: Path) -> None:
        for number in range(count):
            (folder / name / f"n{number}").mkdir(parents=True)

    return plant


def deep(name: str) -> Plant:
    def plant(folder: Path) -> None:
        (folder / name).mkdir(parents=True)
        here = os.getcwd()
        os.chdir(folder / name)
        try:
            for _ in range(DEEP):
                os.mkdir("a")
                os.chdir("a")
            Path("x.py").touch()
        finally:
            os.chdir(here)

    return plant


def both(*plants: Plant) -> Plant:
    def plant(folder: Path) -> None:
        for one in plants:
            one(folder)

    return plant


def repository(*plants: Plant) -> Plant:
    def plant(folder: Path) -> None:
        for name in ("objects", "refs"):
            (folder / ".git" / name).mkdir(parents=True)
        both(*plants)(folder)

    return plant


LINES: Final = "\n".join
HOSTILE: Final[Mapping[str, Plant]] = {
    "key of 12,000 parts": text(CONFIG, ".".join(["a"] * PARTS) + " = 1\n"),
    "keys of 16 parts": text(CONFIG, LINES(".".join(["a"] * 16) + f"{n} = 1" for n in range(1_500))),
    "key of quoted parts": text(CONFIG, ".".join(['"a"'] * PARTS) + " = 1\n"),
    "key of parts with blanks": text(CONFIG, " . ".join(["a"] * PARTS) + " = 1\n"),
    "header of 12,000 parts": text(CONFIG, "[" + ".".join(["a"] * PARTS) + "]\nb = 1\n"),
    "dotted key in an inline table": text(CONFIG, "x = {" + ".".join(["a"] * PARTS) + " = 1}\n"),
    "dotted key behind strings": text(CONFIG, "x = '''\n''' # '\n" + ".".join(["a"] * PARTS) + " = 1\n"),
    "dotted key of 8 MB": text(CONFIG, ".".join(["a"] * (4 * MB)) + " = 1\n"),
    "many tables": text(CONFIG, LINES(f"[a{n}]" for n in range(9_000))),
    "many arrays of tables": text(CONFIG, LINES("[[a]]" for _ in range(10_000))),
    "tables in tables": text(CONFIG, LINES("[[a]]\n[[a.b]]" for _ in range(4_500))),
    "array of many lines": text(CONFIG, "a = [\n" + "1,\n" * 20_000 + "]\n"),
    "array that never ends": text(CONFIG, "a = [\n" + "1,\n" * 20_000),
    "string of many lines": text(CONFIG, 'a = """\n' + "\\\n" * 30_000 + '"""\n'),
    "string that never ends": text(CONFIG, 'a = """\n' + '\\"""\n' * 10_000),
    "quotes": text(CONFIG, '"' * 60_000),
    "one long word": text(CONFIG, "a" * 60_000),
    "arrays in arrays": text(CONFIG, "a = " + "[" * NESTED + "]" * NESTED),
    "inline tables in inline tables": text(CONFIG, "a = " + "{b = " * NESTED + "1" + "}" * NESTED),
    "inline table of many keys": text(CONFIG, "a = {" + ", ".join(f"k{n} = 1" for n in range(6_000)) + "}\n"),
    "number of many digits": text(CONFIG, "max_turns = " + "9" * 60_000),
    "hexadecimal number of many digits": text(CONFIG, "max_turns = 0x" + "f" * 60_000),
    "many tools": text(CONFIG, LINES(f'[tools.t{n}]\npermission = "never"' for n in range(1_500))),
    "many disabled tools": text(CONFIG, "disabled_tools = [" + ", ".join(f'"t{n}"' for n in range(6_000)) + "]\n"),
    "many denied commands": text(
        CONFIG, "[tools.bash]\ndenylist = [" + ", ".join(f'"c{n}"' for n in range(6_000)) + "]\n"
    ),
    "patterns that backtrack": text(CONFIG, 'disabled_tools = ["re:(a+)+$", "re:(_|_)*x", "' + "*a" * 500 + '"]\n'),
    "many providers": text(CONFIG, LINES(f'[[providers]]\nname = "p{n}"\napi_base = "http://x"' for n in range(1_200))),
    "many models": text(CONFIG, LINES(f'[[models]]\nname = "m{n}"\nprovider = "p"' for n in range(1_500))),
    "many paths": text(CONFIG, "tool_paths = [" + ", ".join(f'"p{n}"' for n in range(6_000)) + "]\n"),
    "the folder itself as a path": text(CONFIG, 'tool_paths = [".", "./", "a/..", "/", "/dev", "/proc", "~"]\n'),
    "settings in no encoding": raw(CONFIG, b"\xff\xfe\x00" * 20_000),
    "settings of 7 MB": text(CONFIG, LINES(f"k{n} = {n}" for n in range(450_000))),
    "settings without end": sparse(CONFIG, 1 << 40),
    "settings are a link to zeros": link(CONFIG, "/dev/zero"),
    "settings are a link to themselves": link(CONFIG, "config.toml"),
    "settings are a pipe": pipe(CONFIG),
    "settings are a socket": listening(CONFIG),
    "settings are a folder": directory(CONFIG),
    "the folder of settings is a pipe": pipe(".vibe"),
    "the folder of settings is a link": link(".vibe", "/"),
    "agent with a key of many parts": text(AGENT, ".".join(["a"] * PARTS) + " = 1\n"),
    "agent that never ends": text(AGENT, 'a = """\n' + '\\"""\n' * 10_000),
    "400 agents with keys of parts": both(
        *(text(f".vibe/agents/n{n}.toml", ".".join(["a"] * 3_000) + " = 1\n") for n in range(400))
    ),
    "400 agents of many lines": both(
        *(text(f".vibe/agents/n{n}.toml", "a = [\n" + "1,\n" * 5_000 + "]\n") for n in range(400))
    ),
    "many agents": many(".vibe/agents", ".toml"),
    "many tools' files": many(".vibe/tools", ".py"),
    "many other files": many(".vibe/skills", ".txt"),
    "many folders": many_folders(".vibe/skills"),
    "many shared skills": many_folders(".agents/skills"),
    "deep folders": deep(".vibe/tools"),
    "named deep folders": both(text(CONFIG, 'tool_paths = ["more"]\n'), deep("more")),
    "named many folders": both(text(CONFIG, 'skill_paths = ["more"]\n'), many_folders("more")),
    "servers nested deep": text(SERVERS, '{"mcpServers": ' + "[" * 30_000 + "]" * 30_000 + "}"),
    "tables nested deep": text(SERVERS, '{"mcpServers": ' + '{"a":' * 10_000 + "1" + "}" * 10_000 + "}"),
    "many servers": text(
        SERVERS, '{"mcpServers": {' + ",".join(f'"s{n}": {{"command": "x"}}' for n in range(2_500)) + "}}"
    ),
    "wrong servers": text(
        SERVERS, '{"mcpServers": {' + ",".join(f'"s{n}": {{"command": 1}}' for n in range(2_500)) + "}}"
    ),
    "servers of 7 MB": text(
        SERVERS, '{"mcpServers": {' + ",".join(f'"s{n}": {{"command": "x"}}' for n in range(250_000)) + "}}"
    ),
    "server with a long argument": text(
        SERVERS, '{"mcpServers": {"a": {"command": "x", "args": ["' + "a" * 60_000 + '"]}}}'
    ),
    "server of many arguments": text(
        SERVERS, '{"mcpServers": {"a": {"command": "x", "args": [' + ",".join(['"a"'] * 15_000) + "]}}}"
    ),
    "number of many digits in JSON": text(SERVERS, '{"mcpServers": ' + "9" * 60_000 + "}"),
    "servers are a link to zeros": link(SERVERS, "/dev/zero"),
    "servers are a pipe": pipe(SERVERS),
    "servers without end": sparse(SERVERS, 1 << 40),
    "instructions are a pipe": pipe(AGENTS),
    "instructions are a link to zeros": link(AGENTS, "/dev/zero"),
    "instructions without end": sparse(AGENTS, 1 << 40),
    "instructions of 7 MB": text(AGENTS, "{{a}}${x}<" * 700_000),
    "skill with aliases in aliases": text(SKILL, FRONT.format("&a [" + "x, " * 10_000 + "]")),
    "skill nested deep": text(SKILL, FRONT.format("[" * 20_000)),
    "skill without end": sparse(SKILL, 1 << 40),
    "skill is a pipe": pipe(SKILL),
    "tool is a pipe": pipe(".vibe/tools/one.py"),
    "prompt is a link to zeros": link(".vibe/prompts/one.md", "/dev/zero"),
    "hooks with a key of many parts": text(HOOKS, ".".join(["a"] * PARTS) + " = 1\n"),
    "hooks are a pipe": pipe(HOOKS),
    "hooks are a link to zeros": link(HOOKS, "/dev/zero"),
    "hooks without end": sparse(HOOKS, 1 << 40),
    "hooks in JSON are a pipe": pipe(JSON_HOOKS),
    "hooks in JSON without end": sparse(JSON_HOOKS, 1 << 40),
    "many hooks": text(HOOKS, '[[hooks]]\nname = "a"\ntype = "pre_tool"\ncommand = "x"\n' * 1_200),
    "many hooks in JSON": text(
        JSON_HOOKS, '{"hooks": {"PreToolUse": [' + ",".join(['{"command": "x", "matcher": "y"}'] * 1_800) + "]}}"
    ),
    "hooks nested deep": text(JSON_HOOKS, '{"hooks": ' + "[" * 30_000 + "]" * 30_000 + "}"),
    "hooks of tables nested deep": text(JSON_HOOKS, '{"hooks": ' + '{"Stop":' * 7_000 + "1" + "}" * 7_000 + "}"),
    "hooks with many events that are not run": text(
        JSON_HOOKS, '{"hooks": {' + ",".join(f'"a{n}": 1' for n in range(6_000)) + "}}"
    ),
    "hooks with many keys that are not run": text(
        HOOKS,
        '[[hooks]]\nname = "a"\ntype = "pre_tool"\ncommand = "x"\n' + LINES(f"a{n} = 1" for n in range(6_000)),
    ),
    "hooks with a long pattern": text(
        HOOKS, '[[hooks]]\nname = "a"\ntype = "pre_tool"\ncommand = "x"\nmatch = "re:' + "[a-zé]" * 9_000 + '"\n'
    ),
    "hooks with a pattern nested deep": text(
        JSON_HOOKS, '{"hooks": {"PreToolUse": [{"command": "x", "matcher": "' + "(?:" * 9_000 + ")" * 9_000 + '"}]}}'
    ),
    "hooks with a pattern that is counted too far": text(
        JSON_HOOKS, '{"hooks": {"PreToolUse": [{"command": "x", "matcher": "a{99999999999}"}]}}'
    ),
    "hooks with a number of many digits": text(JSON_HOOKS, '{"hooks": ' + "9" * 60_000 + "}"),
    "another agent's settings are a pipe": pipe(CLAUDE),
    "another agent's settings are a link to zeros": link(CLAUDE, "/dev/zero"),
    "another agent's settings without end": sparse(CLAUDE, 1 << 40),
    "another agent's local settings are a pipe": pipe(".claude/settings.local.json"),
    "another agent's folder is a pipe": pipe(".claude"),
    "another agent's folder is a link": link(".claude", "/proc"),
    "another agent's settings nested deep": text(CLAUDE, '{"a":' * 900 + "1" + "}" * 900),
    "another agent's settings nested without end": text(CLAUDE, '{"a":' * 10_000 + "1" + "}" * 10_000),
    "another agent's settings with many restrictions": text(
        CLAUDE, '{"hooks": {"Stop": []}, ' + ",".join(f'"deny{n}": 1' for n in range(4_500)) + "}"
    ),
    "many keys that would restrict": text(CONFIG, LINES(f"deny{n} = 1" for n in range(5_000))),
    "variables are a pipe": pipe(".env"),
    "README is a pipe": pipe("README.md"),
    "repository is a pipe": pipe(".git"),
    "repository is a link to zeros": link(".git", "/dev/zero"),
    "repository is a file without end": sparse(".git", 1 << 33),
    "repository leads to itself": text(".git", "gitdir: .git\n"),
    "head is a pipe": repository(pipe(".git/HEAD")),
    "head is a link to zeros": repository(link(".git/HEAD", "/dev/zero")),
    "head without end": repository(sparse(".git/HEAD", 1 << 33)),
    "head leads to itself": repository(text(".git/HEAD", "ref: HEAD\n")),
    "repository's settings are a pipe": repository(text(".git/HEAD", "ref: refs/heads/main\n"), pipe(".git/config")),
    "repository's settings are zeros": repository(
        text(".git/HEAD", "ref: refs/heads/main\n"), link(".git/config", "/dev/zero")
    ),
    "repository's settings name themselves": repository(
        text(".git/HEAD", "ref: refs/heads/main\n"), text(".git/config", "[include]\n\tpath = config\n")
    ),
    "packed references are a pipe": repository(text(".git/HEAD", "ref: refs/heads/main\n"), pipe(".git/packed-refs")),
    "index is a pipe": repository(text(".git/HEAD", "ref: refs/heads/main\n"), pipe(".git/index")),
    "ignored names are a pipe": repository(text(".git/HEAD", "ref: refs/heads/main\n"), pipe(".gitignore")),
}
