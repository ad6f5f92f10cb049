"""Files that ask even inside the project: secrets (`secret_files.txt`), and what decides what runs here when written.

Who lets the agent write files has not yet let it run code. So a file asks each time that something else runs without
being told to, or that runs in place of what was meant: at the start of Python, a shell or a tool, with the tests, on a
server that gets the repository, or by the name of a module that others import (`shadowed_module`).

Names are judged on the resolved path and folded: on many file systems ``.GIT`` and ``.git`` are one folder, and
where they are not, one question too many does no harm.
"""

import fnmatch
import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.machinery import PathFinder, all_suffixes
from pathlib import Path
from typing import Final, Literal

from vibe_jupyter.files.secret_names import CredentialNames, secret_names

Access = Literal["read", "write"]

_GUARDED_FOLDERS: Final[dict[str, str]] = {
    ".vibe": "holds settings of this agent",
    ".git": "holds git's settings and hooks, which are programs",
    ".ipython": "holds code that runs when a kernel starts",
    ".jupyter": "holds settings of Jupyter, which are code",
    ".vscode": "holds settings of the editor, which can start programs",
    ".cursor": "holds settings of the editor, which can start programs",
    ".idea": "holds settings of the editor, which can start programs",
    ".zed": "holds settings of the editor, which can start programs",
    ".devcontainer": "holds settings of the editor, which can start programs",
    ".agents": "holds skills, which agents follow",
    ".claude": "holds settings of another agent",
    ".codex": "holds settings of another agent",
    ".gemini": "holds settings of another agent",
    ".config": "holds settings of programs, which can start others",
    ".local": "holds programs, and modules that are imported",
    ".github": "holds workflows, which run on the server that gets this repository",
    ".circleci": "holds workflows, which run on the server that gets this repository",
    ".husky": "holds hooks of git, which are programs",
    **dict.fromkeys(
        (".venv", "venv", "site-packages", "dist-packages", "node_modules"),
        "is where installed code is, which runs when it is imported",
    ),
}
_GUARDED_FILES: Final[dict[str, str]] = {
    ".mcp.json": "names programs to start as MCP servers",
    "agents.md": "holds instructions for agents",
    "claude.md": "holds instructions for agents",
    "gemini.md": "holds instructions for agents",
    **dict.fromkeys((".cursorrules", ".windsurfrules", ".clinerules", ".goosehints"), "holds instructions for agents"),
    "kernel.json": "names the program of a kernel",
    "sitecustomize.py": "runs whenever Python starts",
    "usercustomize.py": "runs whenever Python starts",
    "*.pth": "runs whenever Python starts",
    "conftest.py": "runs whenever tests run",
    **dict.fromkeys(("pytest.ini", ".pytest.ini", "tox.ini", "noxfile.py"), "decides what runs with the tests"),
    **dict.fromkeys(("setup.py", "setup.cfg", "pyproject.toml"), "decides what an installation and the tests run"),
    **dict.fromkeys(("makefile", "gnumakefile", "justfile"), "names the programs that make or just run"),
    "package.json": "names programs that npm runs",
    **dict.fromkeys(
        (".gitlab-ci.yml", ".travis.yml", "azure-pipelines.yml", "jenkinsfile"),
        "holds workflows, which run on the server that gets this repository",
    ),
    **dict.fromkeys((".pre-commit-config.yaml", "lefthook.yml"), "names programs that hooks of git run"),
    "*.code-workspace": "holds settings of the editor, which can start programs",
    **dict.fromkeys(
        ("devcontainer.json", ".devcontainer.json"), "holds settings of the editor, which can start programs"
    ),
    "matplotlibrc": "names a module that matplotlib imports",
    **dict.fromkeys(
        (".pylintrc", "pylintrc", "mypy.ini", ".mypy.ini", ".coveragerc", ".flake8"), "names modules that checks import"
    ),
    **dict.fromkeys((".vimrc", ".exrc", ".gdbinit", ".psqlrc", ".sqliterc"), "runs whenever its program starts"),
    ".pdbrc": "runs whenever Python's debugger starts",
    ".rprofile": "runs whenever R starts",
    **dict.fromkeys(
        (".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile"),
        "runs whenever a shell starts",
    ),
    ".gitconfig": "holds git's settings, which can name programs",
    "jupyter_*config.*": "is a setting of Jupyter that runs as code",
    "jupyter_*config.d": "is a setting of Jupyter that runs as code",
    "ipython_config.*": "is a setting of IPython that runs as code",
    "ipython_*_config.*": "is a setting of IPython that runs as code",
}
_SECRET_REASON: Final = "usually holds passwords or keys"

# Code points some file systems drop when they compare names.
_IGNORED: Final = dict.fromkeys([0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF])


class _Protection:
    """The names that are protected in this process."""

    own: tuple[str, ...] = ()
    names = secret_names()


def protect_also(patterns: tuple[str, ...]) -> None:
    """Protect files with these names too, from now on: those of the user's settings."""
    _Protection.own, _Protection.names = patterns, secret_names(patterns)


def own_patterns() -> tuple[str, ...]:
    """Return what the user's settings add, for processes that search for this one."""
    return _Protection.own


def protected_names() -> CredentialNames:
    """Return the names that are protected now, for programs that search by themselves."""
    return _Protection.names


def protection_reason(names: Sequence[str], access: Access) -> str | None:
    """Why reading or writing the path made of `names` asks, in words after its name; None when it need not."""
    folded = [_fold_name(name) for name in names]
    secret = _secret_reason(folded)
    return secret if access == "read" or secret else _guard_reason(folded)


def shadowed_module(path: Path, root: Path) -> str | None:
    """The module in whose place Python would import the file at a path without links; None where it would not.

    That is so in the project folder, in what Python searches, and in a folder of scripts, which Python searches for
    them; inside a package the full name of a module tells it from others.
    """
    if not path.name.endswith(tuple(all_suffixes())):
        return None
    name, folder = path.name.partition(".")[0], path.parent
    if name == "__init__":
        name, folder = folder.name, folder.parent
    searched = {os.path.abspath(entry) for entry in sys.path}
    own = {str(root), str(folder)}
    if folder != root and str(folder) not in searched and os.path.lexists(folder / "__init__.py"):
        return None
    if name in sys.stdlib_module_names:
        return name
    try:
        spec = PathFinder.find_spec(name, sorted(searched - own))
    except (ImportError, OSError, ValueError):
        return None
    return name if spec is not None and spec.loader is not None else None


def is_secret_name(name: str, folder: str = "") -> bool:
    """Return whether a file or folder is left out of searches that did not name it.

    Args:
        name: of the file or folder.
        folder: the name of the folder it lies in.
    """
    folded, names = _fold_name(name), _Protection.names
    return names.is_folder(folded) or names.is_file(folded, _fold_name(folder))


def may_hold_secret_names(text: str) -> bool:
    """Whether a text that lists paths may hold such a name: a quick look before each is looked at."""
    plain = text.lower()
    return not text.isascii() or any(part in plain for part in _literals(_Protection.names))


@cache
def _literals(names: CredentialNames) -> tuple[str, ...]:
    return names.literals()


def _secret_reason(names: Sequence[str]) -> str | None:
    known = _Protection.names
    in_folder = any(map(known.is_folder, names))
    is_file = bool(names) and known.is_file(names[-1], names[-2] if len(names) > 1 else "")
    return _SECRET_REASON if in_folder or is_file else None


def _guard_reason(names: Sequence[str]) -> str | None:
    for name in names:
        if reason := _GUARDED_FOLDERS.get(name) or _first_match(name, _GUARDED_FILES.items()):
            return reason
    return None


def _first_match(name: str, guarded: Iterable[tuple[str, str]]) -> str | None:
    return next((reason for pattern, reason in guarded if fnmatch.fnmatchcase(name, pattern)), None)


def _fold_name(name: str) -> str:
    plain = name.lower() if name.isascii() else name.translate(_IGNORED).casefold()
    return plain.rstrip(" .") or name
