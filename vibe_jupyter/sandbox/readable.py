"""Paths the copy may read: the system, Python, the project without protected files, and importable modules."""

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

MOST_ENTRIES: Final = 20_000  # project entries scanned for protected files, on each call
MOST_IMPORTABLE: Final = 5_000  # entries of a library outside; nothing of a larger one is readable
# Folders that analyses don't read, or that are covered as part of Python.
_LEFT_OUT: Final = frozenset({".git", "node_modules", ".venv", "venv"})
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
    """The project can't be read without its protected files. The message gives the reason."""


class ReadablePaths(NamedTuple):
    """Paths to pass to `restrict_paths`."""

    readable: tuple[str, ...]
    listable: tuple[str, ...]  # starts with the project
    hidden: tuple[str, ...] = ()  # unreadable paths in the project: protected files, pipes, and whole folders


def readable_paths(project: Path) -> ReadablePaths:
    """Scan a project and return what a copy may read.

    Raises:
        ProjectNotReadable: The project is too large, or inside a folder that is readable as a whole.
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
    # An import lists each of them. One may hold only a package that is readable anyway, such as a checkout of ours.
    listable = (one for one in libraries if modules[one] or one in map(os.path.dirname, around))
    return ReadablePaths(readable, (root, *listable), tuple(walk.hidden))


def program_folders(path: str) -> tuple[str, ...]:
    """Return the folders of programs that a command may start.

    Args:
        path: The PATH variable. Only absolute folders named bin or sbin count.
    """
    named = (entry for entry in path.split(os.pathsep) if os.path.basename(entry.rstrip("/")) in ("bin", "sbin"))
    own = (os.path.join(prefix, "bin") for prefix in sorted(_prefixes()))
    return (*_PROGRAMS, *own, *(entry for entry in named if os.path.isabs(entry)))


def _prefixes() -> set[str]:
    """Return the prefixes of this Python and of its base installation."""
    return set(map(os.path.realpath, (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix)))


def _python_paths() -> Iterator[str]:
    yield from (os.path.join(prefix, name) for prefix in sorted(_prefixes()) for name in _OF_PYTHON)
    yield from (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    yield from (entry for entry in sys.path if os.path.basename(entry.rstrip("/")) in _PACKAGES)
    yield str(Path(__file__).parents[1])
    yield from matplotlib_paths()


def _import_folders() -> list[str]:
    """Return the folders on the import path, including editable installs, except those that contain the home folder."""
    # `copy` is atomic: other threads may import meanwhile.
    finders = [module for name, module in sys.modules.copy().items() if name.startswith("__editable__")]
    # In the format of setuptools.
    mapped = (path for finder in finders for path in getattr(finder, "MAPPING", {}).values())
    folders = {os.path.realpath(entry) for entry in (*sys.path, *mapped) if os.path.isdir(entry)}
    home = os.path.realpath(os.path.expanduser("~"))
    return sorted(folder for folder in folders if not lies_in(home, folder))


def _modules_below(folder: str, known: Collection[str]) -> list[str]:
    """Return the module files of a library and its packages. Its data files are treated like any outside the project.

    Args:
        folder: The library's folder.
        known: Folders that are scanned separately.
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
    """Scan that finds the largest folders without protected files.

    Landlock rules allow whole folders and can't exclude anything again, so a folder with protected files must be
    allowed in parts.
    """

    def __init__(self, around: Collection[str]) -> None:
        """Create a scan.

        Args:
            around: Paths that are readable anyway. Some may be inside the project, such as a virtual environment.
        """
        self._left = MOST_ENTRIES
        self._around = around
        self.hidden: list[str] = []

    def below(self, folder: str) -> tuple[list[str], bool]:
        """Return the readable parts of a folder, and whether that is all of it."""
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
            elif not entry.is_symlink():  # a link's target is checked by itself; reading a pipe would drain it
                whole = False
                self.hidden.append(entry.path)
        return parts, whole and folder not in self.hidden

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            entries = list(os.scandir(folder))
        except OSError:  # unreadable, or deleted meanwhile
            self.hidden.append(folder)
            return []
        self._left -= len(entries)
        if self._left < 0:
            raise ProjectNotReadable(f"the project has more than {MOST_ENTRIES:,} files to look through")
        return entries

    def _hide(self, entry: os.DirEntry[str]) -> None:
        """Hide an entry, except for parts that are readable anyway and unprotected ones next to them."""
        if not any(lies_in(path, entry.path) for path in self._around):
            self.hidden += [entry.path] if not entry.is_symlink() else []
        elif entry.path not in self._around:
            for one in self._entries(entry.path):
                if is_secret_name(one.name, entry.name) or any(lies_in(path, one.path) for path in self._around):
                    self._hide(one)
