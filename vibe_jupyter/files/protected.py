"""Files that ask even inside the project: secrets when read, and what decides what runs here when written.

Who lets the agent write files has not yet let it run code. So a file asks each time that something else runs without
being told to, or that runs in place of what was meant: at the start of Python, a shell or a tool, with the tests, on a
server that gets the repository, or by the name of a module that others import (`shadowed_module`).

Names are judged on the resolved path and folded: on many file systems ``.GIT`` and ``.git`` are one folder, and
where they are not, one question too many does no harm.
"""

import fnmatch
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import PathFinder, all_suffixes
from pathlib import Path
from typing import Final, Literal

Access = Literal["read", "write"]

SECRET_FILES: Final = (
    ".env",
    ".env.*",
    ".env-*",
    ".env_*",
    ".envrc",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.kdbx",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".pypirc",
    ".git-credentials",
    ".databrickscfg",
    ".npmrc",
    ".htpasswd",
    "credentials.json",
    "application_default_credentials.json",
    "kaggle.json",
    "secrets.toml",
    "secrets.json",
    "secrets.y*ml",
    "credentials",
    "credentials.csv",
    "service_account*.json",
    "service-account*.json",
    "client_secret*.json",
    "token.pickle",
    "*.tfstate",
    "*.tfvars",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    "kernel-*.json",
    "jpserver-*.json",
    "nbserver-*.json",
    "jupyter_cookie_secret",
)
"""Glob patterns of file names that usually hold passwords or keys."""
COPY_ENDS: Final = (
    *("~", ".bak", ".backup", ".old", ".orig", ".save", ".copy", ".tmp", ".rej", ".swp", ".swo", ".swn", ".swx"),
    *("#", ".1", ".2"),
)
"""What editors, merges and people put behind the name of a copy."""
COPY_STARTS: Final = (".#", "#", ".")
"""What editors put before the name of a lock, a copy kept while editing, a swap file."""
SECRET_FOLDERS: Final = (".ssh", ".gnupg", ".aws", ".azure", ".kube")
"""Folders that usually hold passwords or keys."""

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
_LAYERS: Final = 3
"""Ends that are taken off a name to see what it is a copy of."""
_EXACT: Final = frozenset(pattern for pattern in SECRET_FILES if "*" not in pattern)
_STARTS: Final = tuple(pattern[:-1] for pattern in SECRET_FILES if pattern.endswith("*"))
_ENDS: Final = tuple(pattern[1:] for pattern in SECRET_FILES if pattern.startswith("*"))
_AROUND: Final = tuple(
    tuple(pattern.split("*")) for pattern in SECRET_FILES if "*" in pattern and "*" not in (pattern[0], pattern[-1])
)
_LITERALS: Final = {max(pattern.split("*"), key=len) for pattern in SECRET_FILES}
_CORES: Final = tuple(text for text in _LITERALS if not any(other in text for other in _LITERALS - {text}))
"""Of which a secret name holds at least one: a quick look first."""


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


def is_secret_name(name: str) -> bool:
    """Whether a file or folder of this name is left out of searches that did not name it."""
    folded = _fold_name(name)
    return folded in SECRET_FOLDERS or _is_secret_file(folded)


def _is_secret_file(folded: str) -> bool:
    return any(core in folded for core in _CORES) and any(
        name in _EXACT
        or name.startswith(_STARTS)
        or name.endswith(_ENDS)
        or any(name.startswith(start) and name.endswith(end) for start, end in _AROUND)
        for name in _originals(folded)
    )


def _originals(name: str) -> Iterator[str]:
    """The name, and what it may be a copy of."""
    for _ in range(_LAYERS + 1):
        yield name
        for start in COPY_STARTS:
            if name.startswith(start):
                yield name[len(start) :]
        end = next((end for end in COPY_ENDS if name.endswith(end) and name != end), "")
        if not end:
            return
        name = name[: -len(end)]


def may_hold_secret_names(text: str) -> bool:
    """Whether a text that lists paths may hold such a name: a quick look before each is looked at."""
    plain = text.lower()
    return not text.isascii() or any(part in plain for part in (*_CORES, *SECRET_FOLDERS))


def _secret_reason(names: Sequence[str]) -> str | None:
    in_folder = any(name in SECRET_FOLDERS for name in names)
    return _SECRET_REASON if in_folder or (names and _is_secret_file(names[-1])) else None


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
