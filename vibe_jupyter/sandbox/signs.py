"""Detect code that may behave differently in a copy or on each run, so that a trial run proves nothing.

Such code inspects its process and permissions, reads the clock, draws randomness from the system, starts threads, or
calls native code directly. It is detected by names in the code, by Python's audit events, and by a profiler that sees
calls. Diagnostic only, not a protection: malicious code can recognize a copy, for example by timing.
"""

import ast
import builtins
import contextlib
import datetime
import os
import random
import re
import sys
import sysconfig
import threading
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType
from typing import Any, Final

from vibe_jupyter.import_guard import pass_through
from vibe_jupyter.sandbox.attempts import ENVIRONMENT_LISTED

# Functions that count only if the user's own code calls them, since libraries read the clock without depending on it.
_OWN_CALLS: Final = {
    "builtins": ("id",),
    "gc": ("isenabled", "get_count", "get_objects", "get_referrers", "get_stats", "get_threshold"),
    "os": (
        *("getpid", "getppid", "getpgid", "getpgrp", "getsid", "getpriority", "getrandom", "get_blocking", "isatty"),
        *("times", "getloadavg", "cpu_count", "process_cpu_count", "sched_getaffinity", "fstat", "fork", "ttyname"),
    ),
    "resource": ("getrlimit", "setrlimit", "prlimit", "getrusage"),
    "signal": ("getsignal", "getitimer", "set_wakeup_fd", "pthread_sigmask"),
    "sys": (
        "getprofile",
        "setprofile",
        "gettrace",
        "getrefcount",
        "getallocatedblocks",
        "_current_frames",
        "_getframe",
    ),
    "threading": ("active_count", "enumerate", "get_native_id", "setprofile"),
    "time": (
        *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time"),
        *("process_time_ns", "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns"),
        *("localtime", "gmtime", "ctime", "asctime", "strftime"),
    ),
}
# Functions that count also if the standard library calls them for the user's code, as `uuid` and `secrets` do.
_DRAWN: Final = {"os": ("urandom",)}
# Unambiguous names, which code may also call from where the profiler doesn't see it.
_WORDS: Final = frozenset(
    {
        *("now", "today", "utcnow", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
        *("process_time", "clock_gettime", "urandom", "getrandom", "SystemRandom", "uuid1", "uuid4", "getpid"),
        *("getppid", "getpgid", "getpgrp", "getsid", "getrlimit", "prlimit", "prctl", "getrusage", "getloadavg"),
        *("cpu_count", "sched_getaffinity", "getsignal", "isenabled", "active_count", "get_native_id", "getrefcount"),
        *("getprofile", "gettrace", "getallocatedblocks", "register_at_fork", "_current_frames", "ctypes", "cffi"),
        *("psutil", "seccomp", "landlock", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    }
)
# Names for file properties that differ in an overlay: inodes, devices and modification times.
_OF_FILES: Final = frozenset(
    {
        *("statvfs", "fstatvfs", "disk_usage", "st_ino", "st_dev", "st_nlink", "ismount", "getmtime", "getctime"),
        *("getatime", "st_mtime", "st_ctime", "st_atime", "st_mtime_ns", "st_ctime_ns", "st_atime_ns"),
    }
)
# Names that together reach objects that differ in a copy.
_TOGETHER: Final = ({"sys", "stdout"}, {"sys", "stderr"}, {"get_ipython", "kernel"})
_OWN_PROCESS: Final = re.compile(r"/proc/(?:self|thread-self|[0-9]+)\b|/sys/fs/cgroup|^/proc/?$|^/dev/u?random$")
_PROCESS_FOLDERS: Final = re.compile(r"/proc\b|/sys/fs\b|/dev/(?:fd|pts|tty|u?random)")
_CALLED: Final = re.compile(r"([^\W\d]\w*)\s*\(")
_EVENTS: Final = ("ctypes.dlopen", "ctypes.dlsym", "ctypes.call_function", "sys._current_frames")
_FROZEN: Final = "<frozen"
_PYTHON: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_PACKAGES: Final = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib"))
_PACKAGE, _SANDBOX = str(Path(__file__).parents[1]), str(Path(__file__).parent)


class Signs:
    """Detector for one piece of code in a copy. `seen` is True once it found something."""

    def __init__(self, *, has_files: bool = False) -> None:
        """Create a detector.

        Args:
            has_files: Whether the copy has an overlay.
        """
        self.seen = False
        self._words = _WORDS | _OF_FILES if has_files else _WORDS
        self._watches = False
        self._is_own: dict[str, bool] = {}  # by the code's file: whether it is the user's
        clock = (getattr(datetime.datetime, name) for name in ("now", "utcnow", "today"))
        self._own_calls: set[object] = {*_functions(_OWN_CALLS), *clock, datetime.date.today}
        self._drawn = set(_functions(_DRAWN))

    def look_for_names(self, code: str, namespace: Mapping[str, object]) -> None:
        """Search the names in plain Python code, and in user functions that it may call."""
        left, known = _compiled(code), set[str]()
        while left and not self.seen:
            one = left.pop()
            texts = [const for const in one.co_consts if isinstance(const, str)]
            names = set(one.co_names)
            self.seen = (
                not self._words.isdisjoint(names)
                or any(together <= names for together in _TOGETHER)
                or any(map(_names_a_sign, texts))
                or any(self._is_sign(namespace.get(name)) for name in names)
            )
            left += [const for const in one.co_consts if isinstance(const, CodeType)]
            for name in names.difference(known):
                known.add(name)
                left += _code_of(namespace.get(name))

    def _is_sign(self, value: object) -> bool:
        """Return whether a variable refers to one of the functions."""
        return isinstance(value, BuiltinFunctionType) and value in self._own_calls | self._drawn

    @contextlib.contextmanager
    def watching(self) -> Generator[None]:
        """Watch code while it runs. Imports of libraries are excluded, so that they aren't slowed down."""
        sys.addaudithook(self._hear)
        threading.setprofile(self._call)
        plain_import = builtins.__import__

        def unwatched_import(*given: Any, **more: Any) -> Any:
            watched = sys.getprofile() == self._call and threading.current_thread() is threading.main_thread()
            if not watched:
                return plain_import(*given, **more)
            sys.setprofile(None)
            try:
                return plain_import(*given, **more)
            finally:
                sys.setprofile(self._call)

        pass_through(unwatched_import)
        builtins.__import__ = unwatched_import
        sys.setprofile(self._call)
        self._watches = True
        try:
            yield
        finally:
            self._watches = False
            self.seen = self.seen or sys.getprofile() != self._call
            sys.setprofile(None)
            builtins.__import__ = plain_import

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._watches:
            return
        if event in ("open", "os.listdir", "os.scandir"):
            if isinstance(arguments[0], str) and _OWN_PROCESS.search(arguments[0]):
                self._see_if_of_user(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
        elif event == ENVIRONMENT_LISTED:  # urllib lists the environment on its own account
            frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
            self.seen = self.seen or self._is_of_user(_behind(frame, (_SANDBOX, _FROZEN)))
        elif event == "exec":
            self._watch_module(arguments[0])
        elif event in _EVENTS:
            self._see_if_of_user(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]

    def _watch_module(self, code: object) -> None:
        """Watch a module of the user's that an import executes."""
        if (
            isinstance(code, CodeType)
            and os.path.isabs(code.co_filename)  # libraries compile text, such as a named tuple's methods
            and self._is_own_file(code.co_filename)
            and sys.getprofile() is None
            and threading.current_thread() is threading.main_thread()
        ):
            sys.setprofile(self._call)

    def _call(self, frame: FrameType, event: str, function: object) -> None:
        if event == "c_call":
            if function in self._own_calls:
                self.seen = self.seen or self._is_of_user(frame)
            elif function in self._drawn:
                self._see_if_of_user(frame)
        elif event == "call" and frame.f_code in self._own_calls:
            self.seen = self.seen or self._is_of_user(frame.f_back)
        elif event == "call" and frame.f_code is random.Random.seed.__code__:
            self.seen = self.seen or frame.f_locals.get("a") is None
        elif event == "call" and frame.f_code is threading.Thread.start.__code__:
            self._see_if_of_user(frame)

    def _see_if_of_user(self, frame: FrameType) -> None:
        """Set `seen` if the user's code does this, directly or through the standard library."""
        own = (*_PYTHON, _FROZEN, _SANDBOX)
        self.seen = self.seen or self._is_of_user(_behind(frame, own, but=_PACKAGES))

    def _is_of_user(self, frame: FrameType | None) -> bool:
        return self._is_own_file(frame.f_code.co_filename if frame is not None else "")

    def _is_own_file(self, file: str) -> bool:
        if file not in self._is_own:
            self._is_own[file] = not file.startswith((*_PYTHON, *_PACKAGES, _PACKAGE, _FROZEN))
        return self._is_own[file]


def _behind(frame: FrameType | None, files: tuple[str, ...], but: tuple[str, ...] = ()) -> FrameType | None:
    """Return the nearest frame whose file starts with none of `files`, or with one of `but`."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(but) or not file.startswith(files):
            break
        frame = frame.f_back
    return frame


def _functions(names: Mapping[str, tuple[str, ...]]) -> Iterator[object]:
    """Yield those that exist. Python functions are represented by their code, which the profiler sees."""
    for module, functions in names.items():
        for function in functions:
            one = getattr(sys.modules.get(module), function, None)
            if one is not None:
                yield one.__code__ if isinstance(one, FunctionType) else one


def _names_a_sign(text: str) -> bool:
    """Return whether a string literal is one of the names, a path in /proc, or code that calls one."""
    return text in _WORDS or bool(_PROCESS_FOLDERS.search(text)) or not _WORDS.isdisjoint(_CALLED.findall(text))


def _compiled(code: str) -> list[CodeType]:
    """Compile code. Returns [] for invalid code, which changes nothing."""
    with contextlib.suppress(SyntaxError, ValueError):
        return [compile(code, "", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)]
    return []


def _code_of(value: object) -> list[CodeType]:
    """Return the code of a function or of a class's methods if the user wrote it."""
    parts = vars(value).values() if isinstance(value, type) and value.__module__ == "__main__" else (value,)
    return [part.__code__ for part in parts if type(part) is FunctionType and part.__module__ == "__main__"]
