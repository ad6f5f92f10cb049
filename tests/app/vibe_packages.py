"""Mistral Vibe itself, from PyPI: it makes the trees of `~/.vibe` that the tests load. Installed under .matrix/.

PYTHONPATH=. python tests/app/vibe_packages.py    install what the tests need; afterwards they need no network
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.kernel.matrix import find_python
from tests.mcp.real_servers import is_ready, say_ready
from vibe_jupyter.testing import ScriptedModel, call, say

VERSIONS: Final = ("2.18.4", "3.0.3")
PROMPT: Final = "Which penguins are heavy?"
ANSWER: Final = "The Gentoo."
_MATRIX: Final = Path(__file__).resolve().parents[2] / ".matrix"
_PYTHON: Final = "3.12"
"""The oldest that Mistral Vibe runs on."""
_INSTALL: Final = 900  # seconds
_RUN: Final = 240.0
"""Seconds that one run may take on a busy machine."""

_REQUIRES: Final = """
import importlib.metadata
for one in importlib.metadata.requires("mistral-vibe"):
    if "extra ==" not in one:
        print("certifi" if one.startswith("certifi==") else one)  # releases of one day are not kept everywhere
"""
_WRITE_CONFIG: Final = """
import json, sys, tomli_w
from vibe.core import config
defaults = config.VibeConfig.create_default() if sys.argv[1] < "3" else config.create_default_config()
defaults = defaults if isinstance(defaults, dict) else defaults.model_dump(mode="json", exclude_none=True)
more = json.loads(sys.argv[3])
for key, value in more.items():
    defaults[key] = [*defaults[key], *value] if isinstance(value, list) else value
with open(sys.argv[2], "wb") as file:
    tomli_w.dump(defaults, file)
"""
"""What the first start writes, and what a user adds, by the package's own settings and writer."""

_WRITTEN: Final = {
    "AGENTS.md": "Weigh birds in grams.\n",
    "prompts/terse.md": "Be terse.\n",
    "agents/reviewer.toml": (
        'display_name = "Reviewer"\ndescription = "Reads and judges"\nsafety = "safe"\nsystem_prompt_id = "terse"\n'
        'disabled_tools = ["bash"]\n\n[tools.write_file]\npermission = "never"\n'
    ),
    "agents/counter.toml": (
        'agent_type = "subagent"\ndescription = "Counts things"\nenabled_tools = ["grep", "read_file"]\n'
    ),
    "skills/weigh-birds/SKILL.md": (
        "---\nname: weigh-birds\ndescription: Weigh birds with the right scales.\nuser-invocable: true\n"
        "allowed-tools: grep read_file\nmetadata:\n  author: ada\n---\n\nUse the small scales.\n"
    ),
}
"""Files that a user writes by hand, in the forms that both versions read."""


def vibe_program(version: str) -> Path:
    """Its folder of programs; it is installed at the first use.

    Raises:
        LookupError: there is no Python for it on this machine.
    """
    folder, packages = _MATRIX / f"mistral-vibe-{version}", (f"mistral-vibe=={version}",)
    if not is_ready(folder, packages):
        found = find_python(_PYTHON)
        if found is None:
            raise LookupError(f"Python {_PYTHON} is not installed here")
        subprocess.run([found, "-m", "venv", "--clear", str(folder)], check=True, timeout=_INSTALL)
        python = str(folder / "bin" / "python")
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", *packages], check=True, timeout=_INSTALL)
        found = subprocess.run([python, "-c", _REQUIRES], check=True, capture_output=True, text=True, timeout=_INSTALL)
        subprocess.run([*pip, *found.stdout.splitlines()], check=True, timeout=_INSTALL)
        say_ready(folder, packages)
    return folder / "bin"


def make_tree(version: str, home: Path) -> Path:
    """Have Mistral Vibe make its folder below a home folder, with one session that a user continued."""
    programs = vibe_program(version)
    tree, work = home / ".vibe", home / "birds"
    for name, text in _WRITTEN.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text, encoding="utf-8")
    work.mkdir()
    (work / "data.csv").write_text("species,grams\nAdelie,3700\nGentoo,5076\n", encoding="utf-8")
    read = call("read", file_path=str(work / "data.csv")) if version < "3" else call("read_file", path="data.csv")
    count = call("bash", command="wc -l data.csv")
    with ScriptedModel([read, count, say(ANSWER, reasoning="5076 is more."), say("Two.")]) as model:
        more = json.dumps(_added(model.url))
        _run(home, programs / "python", "-c", _WRITE_CONFIG, version, str(tree / "config.toml"), more)
        for arguments in ((PROMPT, "--agent", "reviewer"), ("How many rows?", "--continue")):
            _run(home, programs / "vibe", "--trust", "--auto-approve", "-p", *arguments)
        first = model.requests[0]
        assert "Be terse." in str(first.messages[0]["content"])
        assert "weigh-birds" in json.dumps([*first.messages, *first.body["tools"]])
    return tree


def _added(url: str) -> dict[str, object]:
    key = {"type": "static", "api_key_env": "BIRDS_KEY", "api_key_header": "X-Key", "api_key_format": "{token}"}
    return {
        "active_model": "scripted",
        "enable_telemetry": False,
        "enable_update_checks": False,
        "providers": [{"name": "scripted", "api_base": url}],
        "models": [{"name": "scripted-1", "provider": "scripted", "alias": "scripted"}],
        "mcp_servers": [
            {"name": "birds", "transport": "streamable-http", "url": "http://127.0.0.1:9/mcp", "auth": key},
            {"name": "scales", "transport": "stdio", "command": ["no-such-program"], "args": ["--grams"]},
        ],
    }


def _run(home: Path, *command: Path | str) -> None:
    """Run a program of it to its end, with nothing of ours and no way out."""
    closed = "http://127.0.0.1:9"
    environ = {"PATH": os.pathsep.join((str(Path(command[0]).parent), "/usr/bin", "/bin")), "HOME": str(home)}
    environ |= {"HTTP_PROXY": closed, "HTTPS_PROXY": closed, "NO_PROXY": "127.0.0.1,localhost"}
    environ |= {"MISTRAL_API_KEY": "none"}
    ended = subprocess.run(
        command,
        cwd=home / "birds",
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_RUN,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"


if __name__ == "__main__":
    for one in VERSIONS:
        try:
            print(f"Mistral Vibe {one}: {vibe_program(one)}")
        except LookupError as error:
            sys.exit(f"Mistral Vibe {one}: {error}")
