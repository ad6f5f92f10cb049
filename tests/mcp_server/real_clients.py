"""MCP clients and SDKs that others wrote, from npm and PyPI, in folders of their own under .matrix/.

    PYTHONPATH=. python tests/mcp_server/real_clients.py    install them; afterwards the tests need no network

None of their install scripts run. Each client runs with an empty home folder and no key of anybody's, and its model is
a server of the test on this machine, so that it asks nobody else.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.kernel.matrix import find_python
from tests.mcp.real_servers import is_ready, node, say_ready

MATRIX = Path(__file__).resolve().parents[2] / ".matrix"
FROM_NPM = (
    "@anthropic-ai/claude-code@2.1.197",
    "@google/gemini-cli@0.61.0",
    "opencode-ai@1.18.33",
    "@modelcontextprotocol/inspector@0.15.0",
    "@openai/codex@0.169.0",
    "openai@7.59.0",
    "@anthropic-ai/sdk@1.14.0",
)
FROM_PYPI = ("mistral-vibe==3.0.2",)
VIBE_PYTHON = "3.12"
"""The oldest that Mistral Vibe runs on."""
RUN = 120.0
"""Seconds a client may take on a busy machine."""
_INSTALL = 900  # seconds
_CLAUDE = "node_modules/@anthropic-ai/claude-code/cli-wrapper.cjs"
_COMMANDS = {
    "claude": _CLAUDE,
    "codex": "node_modules/@openai/codex/bin/codex.js",
    "gemini": "node_modules/@google/gemini-cli/bundle/gemini.js",
    "opencode": "node_modules/opencode-linux-*/bin/opencode",
    "inspector": "node_modules/@modelcontextprotocol/inspector/cli/build/cli.js",
}
_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
}


class Client:
    """One client at work in a folder, which is its home too."""

    def __init__(self, name: str, folder: Path, **environ: str) -> None:
        self.folder = folder
        self._command = command(name)
        self._environ = environ

    def run(self, *arguments: str) -> str:
        """What it says; it must end by itself, and well."""
        process = subprocess.Popen(
            [*self._command, *arguments],
            cwd=self.folder,
            env={**environment(self.folder), **self._environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=RUN)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with all it started
            process.wait()
        assert process.returncode == 0, said
        return said


def command(name: str) -> list[str]:
    """How a client is started; it is installed at the first use."""
    if name == "vibe":
        return [str(vibe_folder() / "bin" / "vibe")]
    file = min(npm_folder().glob(_COMMANDS[name]))  # of several builds the one for newer processors
    return [str(file)] if file.suffix == "" else [node(), str(file)]


def environment(home: Path) -> Mapping[str, str]:
    """Nothing of ours, and no way out: whoever asks for a proxy finds a closed door."""
    closed = "http://127.0.0.1:9"
    path = os.pathsep.join((str(Path(node()).parent), "/usr/bin", "/bin"))
    found = {"PATH": path, "HOME": str(home), **_QUIET, "NO_PROXY": "127.0.0.1,localhost"}
    return {**found, "HTTPS_PROXY": closed, "HTTP_PROXY": closed}


def npm_folder() -> Path:
    """With the clients of npm."""
    folder = MATRIX / "clients-npm"
    if not is_ready(folder, FROM_NPM):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        install = ["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder)]
        subprocess.run([*install, *FROM_NPM], check=True, timeout=_INSTALL)
        say_ready(folder, FROM_NPM)
    return folder


def vibe_folder() -> Path:
    """An environment with Mistral Vibe.

    Raises:
        LookupError: there is no Python for it on this machine.
    """
    folder = MATRIX / "clients-pypi"
    if not is_ready(folder, FROM_PYPI):
        found = find_python(VIBE_PYTHON)
        if found is None:
            raise LookupError(f"Python {VIBE_PYTHON} is not installed here")
        subprocess.run([found, "-m", "venv", "--clear", str(folder)], check=True, timeout=_INSTALL)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *FROM_PYPI], check=True, timeout=_INSTALL)
        say_ready(folder, FROM_PYPI)
    return folder


if __name__ == "__main__":
    print(f"MCP clients of npm: {npm_folder()}")
    try:
        print(f"Mistral Vibe: {vibe_folder()}")
    except LookupError as error:
        print(f"Mistral Vibe: {error}")
