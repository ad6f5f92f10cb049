"""The SDKs of vendors, from PyPI, in a folder of their own under .matrix/, and a program that uses them.

python tests/gateway/sdks.py    install them; afterwards the tests need no network
"""

import atexit
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

PACKAGES = ("openai==3.54.0", "anthropic==2.12.0", "mistralai==3.7.0")
FOLDER = Path(__file__).resolve().parents[2] / ".matrix" / "gateway-sdks"
PROGRAM = Path(__file__).with_name("sdk_program.py")
_INSTALL = 600  # seconds


def python() -> str:
    """An interpreter that has the packages, installed at the first use."""
    ready, found = FOLDER / "ready", FOLDER / "bin" / "python"
    wanted = "\n".join(PACKAGES)
    if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(FOLDER)], check=True, timeout=_INSTALL)
        pip = [str(found), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES], check=True, timeout=_INSTALL)
        ready.write_text(wanted, encoding="utf-8")
    return str(found)


def use(steps: str, url: str, token: str) -> Any:
    """What a function of `sdk_program` gives that was called with the address and the token."""
    program = _program()
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(json.dumps([steps, url, token]) + "\n")
    program.stdin.flush()
    given, trace = json.loads(program.stdout.readline())
    assert trace is None, trace
    return given


@cache
def _program() -> "subprocess.Popen[str]":
    """One for all tests: each SDK takes a second to import."""
    argv = [python(), "-I", str(PROGRAM)]
    program = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(program.communicate)
    return program


if __name__ == "__main__":
    print(f"SDKs for the gateway: {python()}")
