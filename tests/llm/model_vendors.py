"""The types with which vendors of models check requests, from PyPI, in a folder of their own under .matrix/.

python tests/llm/model_vendors.py    install them; afterwards the tests need no network
"""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PACKAGES = ("openai==3.54.0", "mistralai==3.7.0", "mistral-common==1.13.1", "ollama==0.6.3")
"""Not beside what we use: mistral-common wants an older NumPy."""
FOLDER = Path(__file__).resolve().parents[2] / ".matrix" / "model-vendors"
PROGRAM = Path(__file__).with_name("vendor_types.py")
_INSTALL = 600  # seconds


class Vendors:
    """A program that has their packages, started at the first question: what they have against a request."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.communicate()

    def complaints(self, dialect: str, body: dict[str, Any]) -> list[str]:
        """What the vendor of a dialect would refuse in a body; empty when it is sound."""
        return self._answer(dialect, body)

    def fields(self, vendor: str) -> set[str]:
        """Names of the fields that the request type of a vendor has."""
        return set(self._answer(vendor, None))

    def _answer(self, dialect: str, body: dict[str, Any] | None) -> list[str]:
        if self._process is None:
            argv = [python(), "-I", str(PROGRAM)]
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([dialect, body]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


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


if __name__ == "__main__":
    print(f"Types of model vendors: {python()}")
