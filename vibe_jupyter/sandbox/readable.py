"""What the copy may read: the system, Python, the project without its protected files, and modules from elsewhere."""

import importlib.machinery
import os
import sys
import sysconfig
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.files.protected import is_secret_name
from vibe_jupyter.sandbox.font_list import matplotlib_paths
from vibe_jupyter.sandbox.landlock import lies_in

MOST_ENTRIES: Final = 20_000
"""Files and folders of a project that are looked through for protected ones, each time."""
MOST_IMPORTABLE: Final = 5_000
"""Files and folders of a library that lies elsewhere. Of a larger one nothing is readable."""
_LEFT_OUT: Final = frozenset({".git", "node_modules", ".venv", "venv"})
"""Folders that no analysis reads, or that are read as part of Python."""
_SYSTEM: Final = (
    *("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/share", "/usr/local/lib", "/usr/local/share", "/lib", "/lib64"),
    *("/etc/ld.so.cache", "/etc/fonts", "/etc/localtime", "/etc/timezone", "/etc/mime.types"),
    *("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/version"),
    *("/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/osrelease", "/sys/devices/system", "/sys/fs/cgroup"),
    *(f"/proc/self/{name}" for name in ("maps", "status", "stat", "statm", "cgroup")),
)
_PROGRAMS: Final = (*("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/libexec"), *("/bin", "/sbin"))
_OF_PYTHON: Final = ("lib", "lib64", "share", "include", "pyvenv.cfg")
_MODULES: Final = tuple(importlib.machinery.all_suffixes())
_PACKAGES: Final = ("site-packages", "dist-packages")


class ProjectNotReadable(Exception):
    """It cannot be read without its protected files; says why."""


class ReadablePaths(NamedTuple):
    """For `restrict_paths`."""

    readable: tuple[str, ...]
    listable: tuple[str, ...]
    """The project first."""
    hidden: tuple[str, ...] = ()
    """What lies in the project and may not be read: protected files, pipes, folders as a whole."""


def readable_paths(project: Path) -> ReadablePaths:
    """Look through a project.

    Raises:
        ProjectNotReadable: there is too much to look through, or it lies in what is read as a whole.
    """
    root = os.path.realpath(project)
    around = (*_SYSTEM, *_python_paths())
    if root in _prefixes() or any(lies_in(root, os.path.realpath(path)) for path in around):
        raise ProjectNotReadable("the project lies in a folder of the system or of Python")
    walk = _Walk({os.path.realpath(path) for path in around})
    parts, whole = walk.below(root)
    libraries = [folder for folder in _import_folders() if not any(lies_in(folder, one) for one in (*around, root))]
    modules = {folder: _modules_below(folder, (*around, root)) for folder in libraries}
    readable = (*around, *([root] if whole else parts), *(file for files in modules.values() for file in files))
    return ReadablePaths(readable, (root, *(folder for folder in libraries if modules[folder])), tuple(walk.hidden))


def program_folders(path: str) -> tuple[str, ...]:
    """Where programs lie that a command may start.

    Args:
        path: the folders in which the shell looks for them; one counts only where its name says what it is for.
    """
    named = (entry for entry in path.split(os.pathsep) if os.path.basename(entry.rstrip("/")) in ("bin", "sbin"))
    own = (os.path.join(prefix, "bin") for prefix in sorted(_prefixes()))
    return (*_PROGRAMS, *own, *(entry for entry in named if os.path.isabs(entry)))


def _prefixes() -> set[str]:
    """Where Pythons are installed."""
    return set(map(os.path.realpath, (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)))


def _python_paths() -> Iterator[str]:
    yield from (os.path.join(prefix, name) for prefix in sorted(_prefixes()) for name in _OF_PYTHON)
    yield from (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    yield from (entry for entry in sys.path if os.path.basename(entry.rstrip("/")) in _PACKAGES)
    yield str(Path(__file__).parents[1])
    yield from matplotlib_paths()


def _import_folders() -> list[str]:
    """Where modules are looked for, with those of packages that are installed to be edited; not in all of a home."""
    finders = [module for name, module in list(sys.modules.items()) if name.startswith("__editable__")]
    mapped = (path for finder in finders for path in getattr(finder, "MAPPING", {}).values())  # as setuptools has them
    folders = {os.path.realpath(entry) for entry in (*sys.path, *mapped) if os.path.isdir(entry)}
    home = os.path.realpath(os.path.expanduser("~"))
    return sorted(folder for folder in folders if not lies_in(home, folder))


def _modules_below(folder: str, known: Collection[str]) -> list[str]:
    """The modules of a library, and those of its packages. Its data are as those of any folder outside of the project.

    Args:
        known: folders that are looked through elsewhere.
    """
    files: list[str] = []
    seen = 0
    for place, folders, names in os.walk(folder):
        below = {name: os.path.join(place, name) for name in folders}
        folders[:] = [name for name, path in below.items() if path not in known and _is_package(name, path)]
        seen += len(folders) + len(names)
        if seen > MOST_IMPORTABLE:
            return []
        modules = (
            os.path.join(place, name)
            for name in names
            if name.endswith(_MODULES) and not is_secret_name(name, os.path.basename(place))
        )
        files += [path for path in modules if not os.path.islink(path)]
    return files


def _is_package(name: str, path: str) -> bool:
    return name == "__pycache__" or (name.isidentifier() and os.path.isfile(os.path.join(path, "__init__.py")))


class _Walk:
    """Landlock allows whole folders and takes nothing out of them again: so a folder is allowed as a whole where
    nothing in it is protected, else in parts."""

    def __init__(self, around: Collection[str]) -> None:
        """
        Args:
            around: what is readable anyway, some of it perhaps in the project, as a virtual environment is.
        """
        self._left = MOST_ENTRIES
        self._around = around
        self.hidden: list[str] = []

    def below(self, folder: str) -> tuple[list[str], bool]:
        """The parts that may be read, and whether they are all."""
        parts: list[str] = []
        whole = True
        for entry in self._entries(folder):
            if is_secret_name(entry.name, os.path.basename(folder)) or entry.name in _LEFT_OUT:
                whole = False
                self._hide(entry)
            elif entry.is_dir(follow_symlinks=False):
                below, all_of_it = self.below(entry.path)
                parts += [entry.path] if all_of_it else below
                whole = whole and all_of_it
            elif entry.is_file(follow_symlinks=False):
                parts.append(entry.path)
            elif not entry.is_symlink():  # where one leads is judged by itself; a pipe would be emptied
                whole = False
                self.hidden.append(entry.path)
        return parts, whole and folder not in self.hidden

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            entries = list(os.scandir(folder))
        except OSError:  # nobody reads it, or it is gone
            self.hidden.append(folder)
            return []
        self._left -= len(entries)
        if self._left < 0:
            raise ProjectNotReadable(f"the project has more than {MOST_ENTRIES:,} files to look through")
        return entries

    def _hide(self, entry: os.DirEntry[str]) -> None:
        """All of it, but for what is readable anyway, and what lies beside that."""
        if not any(lies_in(path, entry.path) for path in self._around):
            self.hidden += [entry.path] if not entry.is_symlink() else []
        elif entry.path not in self._around:
            for one in self._entries(entry.path):
                if is_secret_name(one.name, entry.name) or any(lies_in(path, one.path) for path in self._around):
                    self._hide(one)
