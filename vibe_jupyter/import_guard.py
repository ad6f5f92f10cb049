"""Import guard: keeps imports of this package and its dependencies out of the folder that the user works in.

A notebook's folder is on `sys.path`, so a file `sniffio.py` in it would be executed when a dependency tries to import
sniffio, which many do only at the first request. A list of such names would never be complete. Instead, the import
system's `PathFinder` is replaced by one that checks, for each module found in such a folder, which code imports it. The
user's own code can import anything, including from its own threads.

This module itself is imported before the guard is installed, so it only uses modules loaded at interpreter startup.
"""

import os
import sys
from _contextvars import ContextVar
from _frozen_importlib_external import PathFinder as _PathFinder
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from importlib.metadata import Distribution, DistributionFinder
    from types import CodeType, FrameType, ModuleType
    from typing import Any


_CODE = os.path.dirname(os.path.abspath(__file__)) + os.sep  # prefix of our code objects' file names
_OURS = os.path.dirname(os.path.realpath(__file__))
_FINDER = os.path.abspath(__file__)
_PACKAGES = ("site-packages", "dist-packages")
_works_for_us: "ContextVar[bool]" = ContextVar("vibe_works_for_us", default=False)
_barred: dict[int, int] = {}  # nesting depth of `bar` by thread
_passed_through: "set[CodeType]" = set()  # functions of ours whose imports count as their caller's
_real_paths: dict[str, str] = {}
_installed: dict[str, bool] = {}
_started_in: list[str] = []
_at_start: set[str] = set()  # path entries from the user's environment: PYTHONPATH, editable installs


def work_for_us() -> None:
    """Treat all code of the current context as ours: a thread of ours, and the tasks and threads that it starts."""
    _works_for_us.set(True)


def pass_through(function: "Callable[..., Any]") -> None:
    """Count imports through this function of ours as its caller's, as for a replacement of `__import__`."""
    _passed_through.add(function.__code__)


def bar() -> None:
    """Block imports from the user's folder in this thread, whoever requests them, until `unbar`."""
    thread = get_ident()
    _barred[thread] = _barred.get(thread, 0) + 1


def unbar() -> None:
    """Undo one call of `bar`."""
    thread = get_ident()
    _barred[thread] -= 1
    if not _barred[thread]:
        del _barred[thread]


class PathFinder(_PathFinder):
    """Replacement of Python's `PathFinder` that hides the user's folder from our code.

    It has the same name, because other import hooks look up `sys.meta_path` entries by it.
    """

    @classmethod
    def find_spec(
        cls, fullname: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Find a module.

        Submodules of a regular package are found in the package's folder, and a reloaded module in its present one.
        """
        spec = super().find_spec(fullname, path, target)
        if spec is None or target is not None or isinstance(path, list) or all(map(_is_installed, _places(spec))):
            return spec
        entries = sys.path if path is None else path
        barred = _folders_of_user(entries)
        if not any(_is_in(place, barred) for place in _places(spec)) or not _is_for_us():
            return spec
        return super().find_spec(fullname, [one for one in entries if _real_path(one) not in barred], target)

    @classmethod
    def find_distributions(cls, context: "DistributionFinder.Context | None" = None) -> "Iterable[Distribution]":  # pyright: ignore[reportIncompatibleMethodOverride]
        """Find package metadata.

        Hides the user's folder, where an entry point doesn't belong to an installed package.
        """
        from importlib.metadata import DistributionFinder, MetadataPathFinder  # noqa: PLC0415 - its caller imported it

        context = DistributionFinder.Context() if context is None else context
        barred = _folders_of_user(context.path)
        if barred and _is_for_us():
            kept = [one for one in context.path if _real_path(one) not in barred]
            context = DistributionFinder.Context(name=context.name, path=kept)
        return MetadataPathFinder.find_distributions(context)


def install() -> None:
    """Replace Python's own finder by the guard. Idempotent."""
    if PathFinder in sys.meta_path:
        return
    _started_in.extend(_roots())
    _at_start.update(_real_path(one) for one in sys.path if os.path.isabs(one) and _real_path(one) not in _started_in)
    for at, finder in enumerate(sys.meta_path):
        if finder is _PathFinder:
            sys.meta_path[at] = PathFinder
            return


def installed_entries(entries: "Iterable[str]", *folders: str) -> list[str]:
    """Return the entries of a search path that are neither in the user's folder nor one of `folders`."""
    entries = list(entries)
    barred = {*_folders_of_user(entries), *map(_real_path, folders)}
    return [one for one in entries if one and _real_path(one) not in barred]


def python_environment(environ: "Mapping[str, str]", *folders: str) -> dict[str, str]:
    """Return the environment for a Python process of ours, without the user's folders in PYTHONPATH.

    An empty entry of PYTHONPATH stands for the folder in which the process is started.

    Args:
        environ: The environment it would get.
        folders: Folders that it may be started in.
    """
    given = environ.get("PYTHONPATH")
    if given is None:
        return dict(environ)
    return {**environ, "PYTHONPATH": os.pathsep.join(installed_entries(given.split(os.pathsep), *folders))}


def _places(spec: "ModuleSpec") -> list[str]:
    """Return the path entries, or folders in them, that a module was found in."""
    if spec.submodule_search_locations is not None:
        return [os.path.dirname(one) for one in spec.submodule_search_locations]
    return [os.path.dirname(spec.origin)] if spec.origin else []


def _folders_of_user(entries: "Iterable[str]") -> set[str]:
    """Return the real paths of the entries that belong to the user.

    These are working folders, relative entries, and entries added by code that are above or below a working folder,
    such as `../src`. Folders of installed packages are excluded, although an environment is often inside a project.
    """
    roots = _roots()
    found: set[str] = set()
    for entry in entries:
        place = _real_path(entry)
        near = place not in _at_start and any(_is_below(place, root) or _is_below(root, place) for root in roots)
        if near or place in roots or not os.path.isabs(entry):
            found.add(place)
    return {place for place in found if not _is_installed(place)}


def _roots() -> list[str]:
    """Return the folders that the user works in: the current one, the initial one, and that of the script."""
    return [one for one in {_working_folder(), *_started_in, _script_folder()} if one]


def _is_in(place: str, folders: set[str]) -> bool:
    """Return whether a place is one of the folders or below it, such as inside an archive."""
    place = _real_path(place)
    return any(_is_below(place, one) for one in folders)


def _is_installed(place: str) -> bool:
    known = _installed.get(place)
    if known is None:
        real = _real_path(place)
        known = os.path.isabs(place) and any(_is_below(real, one) for one in _places_of_packages())
        _installed[place] = known
    return known


def _places_of_packages() -> "set[str]":
    site: Any = sys.modules.get("site")
    places = {_OURS, os.path.dirname(_real_path(os.__file__))}
    if site is not None:
        places.update(map(_real_path, site.getsitepackages()))
        if site.USER_SITE:
            places.add(_real_path(site.USER_SITE))
    beside = os.path.dirname(_OURS)
    if os.path.basename(beside) in _PACKAGES or _holds_metadata(beside):
        places.add(beside)
    return places


def _holds_metadata(folder: str) -> bool:
    """Return whether pip installed us and our dependencies in this folder, as with `pip install --target`."""
    try:
        return any(one.startswith("vibe_jupyter-") and one.endswith(".dist-info") for one in os.listdir(folder))
    except OSError:
        return False


def _is_for_us() -> bool:
    """Return whether our code, or a dependency on its behalf, is importing, rather than the user's own code.

    The innermost frame that is ours or the user's decides. Frames of libraries count as their caller's.
    """
    if get_ident() in _barred:
        return True
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    roots = _roots()
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        if name.startswith(_CODE):
            if name != _FINDER and code not in _passed_through:
                return True
        elif frame.f_globals.get("__name__") == "__main__" or _is_users_file(name, roots):
            return False
        frame = frame.f_back
    return _works_for_us.get()


def _is_users_file(name: str, roots: list[str]) -> bool:
    if not os.path.isabs(name):  # code made by `exec` under a library's name, or frozen code
        return False
    place = _real_path(os.path.dirname(name))
    return any(_is_below(place, root) for root in roots) and not _is_installed(place)


def _working_folder() -> str:
    """Return the process's working folder, or "" if it was deleted."""
    try:
        return _real_path(os.getcwd())
    except OSError:
        return ""


def _script_folder() -> str:
    """Return the folder of the running script, which Python adds to the path, or ""."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.dirname(_real_path(script)) if isinstance(script, str) else ""


def _real_path(path: str) -> str:
    """Resolve links. Cached for absolute paths, which are resolved at each import."""
    if not os.path.isabs(path):
        try:
            return os.path.realpath(path)
        except OSError:  # the working folder was deleted
            return path
    real = _real_paths.get(path)
    if real is None:
        real = _real_paths[path] = os.path.realpath(path)
    return real


def _is_below(place: str, folder: str) -> bool:
    return place == folder or place.startswith(folder.rstrip(os.sep) + os.sep)


install()
