"""Files that require approval even inside the project: secrets (`secret_files.txt`), and writes to files that run code.

Permission to write files isn't permission to run code. So approval is required for files that another program runs by
itself, or runs instead of the intended one: when Python, a shell or a tool starts, with the tests, on a server that
receives the repository, or by shadowing an imported module (`shadowed_module`).

Names are compared on the resolved path after case folding: on many file systems ``.GIT`` and ``.git`` are the same
folder, and where they aren't, an extra question does no harm.
"""

import fnmatch
import os
import sys
from collections.abc import Iterable, Sequence
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

# Code points that some file systems ignore when comparing names.
IGNORED_IN_NAMES: Final = (0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF)
_IGNORED: Final = dict.fromkeys(IGNORED_IN_NAMES)


class _Protection:
    """Names that are protected in this process."""

    own: tuple[str, ...] = ()
    names = secret_names()


def protect_also(patterns: tuple[str, ...]) -> None:
    """Also protect files with these names, from the user's settings."""
    _Protection.own, _Protection.names = patterns, secret_names(patterns)


def own_patterns() -> tuple[str, ...]:
    """Return the patterns from the user's settings, for subprocesses that search."""
    return _Protection.own


def protected_names() -> CredentialNames:
    """Return the currently protected names, for subprocesses that search."""
    return _Protection.names


def protection_reason(names: Sequence[str], access: Access) -> str | None:
    """Return why reading or writing this path requires approval, worded to follow its name, or None."""
    folded = [_fold_name(name) for name in names]
    secret = _secret_reason(folded)
    return secret if access == "read" or secret else _guard_reason(folded)


def shadowed_module(path: Path, root: Path) -> str | None:
    """Return the module that the file at `path` (without symbolic links) would shadow in Python's imports, or None.

    Files can shadow modules in the project folder, on `sys.path`, and in a script's own folder, which Python adds to
    the path. Inside a package, a module's full name distinguishes it from others.
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
    """Return whether a file or folder is excluded from searches that don't name it.

    Args:
        name: Name of the file or folder.
        folder: Name of the folder that contains it.
    """
    folded, names = _fold_name(name), _Protection.names
    return names.is_folder(folded) or names.is_file(folded, _fold_name(folder))


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
