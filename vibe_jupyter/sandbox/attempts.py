"""Record what code in the copy tried that the copy may not do. Diagnostic only, not a protection.

The copy reports facts (`Attempt`) rather than text, since the code in it may forge them. The kernel formats
them as a sentence (`attempt_words`).
"""

import errno
import os
import socket
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import StringConstraints

from vibe_jupyter.files.shown_names import shown_name
from vibe_jupyter.sandbox.overlay import ProjectOverlay

MOST_ATTEMPTS: Final = 20  # attempts reported per copy
_LONGEST: Final = 400  # characters of a reported path
# EBADF: files that were open for writing are reopened read-only in the copy.
_REFUSED: Final = frozenset({errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOSYS, errno.EFBIG, errno.EBADF})
_REFUSED_WORDS: Final = (
    *(os.strerror(errno.EPERM), os.strerror(errno.EACCES), os.strerror(errno.EBADF)),
    *("unable to open database file", "readonly database", "disk I/O error"),
)
# Errors that writes may fail with on an overlay but not in the project's folder itself.
_OF_OVERLAY: Final = frozenset(
    (
        *(errno.EXDEV, errno.ENOSPC, errno.EDQUOT, errno.EOVERFLOW, errno.EBUSY, errno.EIO),
        *(errno.ESTALE, errno.EOPNOTSUPP, errno.EINVAL),
    )
)
_WORDS_OF_OVERLAY: Final = tuple(map(os.strerror, _OF_OVERLAY | {errno.EROFS, errno.EFBIG}))
_WRITE_FLAGS: Final = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Our own audit event: code lists all environment variables, of which a copy lacks some.
ENVIRONMENT_LISTED: Final = "vibe_jupyter.environment_listed"
_LISTED: Final = frozenset({"os.listdir", "os.scandir"})
_PROGRAM: Final = "start a program"
_NETWORK: Final = "use the network"
_MEMORY: Final = "take that much memory"
_THIS: Final = "do this"
_SIGNAL: Final = "send a signal to process"
_ENVIRONMENT: Final = "read the environment variable"

Deed = Literal[
    "write",
    "read",
    "delete",
    "rename",
    "make the folder",
    "link to",
    "cut",
    "change the rights of",
    "change the owner of",
    "change the time of",
    "send a signal to process",
    "read the environment variable",
    "do this",
    "start a program",
    "use the network",
    "take that much memory",
    "ask for text to be typed",
]
_DEEDS: Final[dict[str, Deed]] = {
    "os.remove": "delete",
    "os.rmdir": "delete",
    "os.rename": "rename",
    "os.mkdir": "make the folder",
    "os.link": "link to",
    "os.symlink": "link to",
    "os.truncate": "cut",
    "os.chmod": "change the rights of",
    "os.chown": "change the owner of",
    "os.utime": "change the time of",
    "os.kill": _SIGNAL,
}
# Wording if the object can't be named. For other operations the object is "a file".
_UNNAMED: Final[dict[Deed, str]] = {
    "make the folder": "make a folder",
    _SIGNAL: "send a signal to another process",
    _ENVIRONMENT: "read a variable of the environment that is withheld from it",
    _THIS: "do this",
}
# Operations without an object.
_ALONE: Final[frozenset[Deed]] = frozenset({_PROGRAM, _NETWORK, _MEMORY, "ask for text to be typed"})
# Indexes of the path arguments of events that change files an overlay may accept.
_PLACES: Final = {
    **dict.fromkeys(("open", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"), (0,)),
    **dict.fromkeys(("os.rename", "os.link"), (0, 1)),
    "os.symlink": (1,),
}
# Index of the first `dir_fd` argument, which is -1 if not given.
_FOLDERS_AT: Final = {"os.remove": 1, "os.rmdir": 1, "os.mkdir": 2, "os.rename": 2, "os.link": 2, "os.symlink": 2}
_DEEDS_ALONE: Final[dict[str, Deed]] = {
    **dict.fromkeys(("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen"), _PROGRAM),
    **dict.fromkeys(("socket.__new__", "socket.connect", "socket.getaddrinfo"), _NETWORK),
}
# Reasons that may be quoted when nothing else is known about a refusal.
_REASONS: Final = frozenset(
    {*(os.strerror(number).lower() for number in errno.errorcode), *_REFUSED_WORDS, *_WORDS_OF_OVERLAY}
)
_HEARD: Final = frozenset({"open", *_LISTED, *_DEEDS, *_DEEDS_ALONE})


class Attempt(NamedTuple):
    """An operation that the code tried."""

    deed: Deed
    # Path, process id, variable name or error text; may be chosen by the code.
    object: Annotated[str, StringConstraints(max_length=_LONGEST)] = ""


def attempt_words(attempt: Attempt, *, named: bool = True) -> str:
    """Return the phrase for an attempt, such as ``write out.csv``, or ``write a file`` if not `named`."""
    deed, target = attempt
    if deed in _ALONE:
        return deed
    is_known = True
    if deed == _SIGNAL:
        is_known = target.removeprefix("-").isdecimal() and target.isascii()
    elif deed == _ENVIRONMENT:
        is_known = target in os.environ
    elif deed == _THIS:
        return f"{deed}: {target}" if target in _REASONS else deed
    if named and is_known and target:
        return f"{deed} {shown_name(target)}"
    return _UNNAMED.get(deed, f"{deed} a file")


class Attempts:
    """Recorder of attempts, based on Python's audit events. An audit hook can't be removed once added."""

    def __init__(self, overlay: ProjectOverlay | None = None) -> None:
        """Create a recorder.

        Args:
            overlay: Overlay that the copy may write to, or None.
        """
        self._overlay = overlay
        self._tried: dict[Attempt, None] = {}
        self._latest: Attempt | None = None
        self._asks_itself = False
        self._wanted_withheld = False

    def listen(self) -> None:
        """Add the audit hook. Only in the copy."""
        sys.addaudithook(self._hear)

    def withhold(self, names: Collection[str]) -> None:
        """Remove these environment variables and record lookups of them. Only in the copy."""
        for name in names:
            del os.environ[name]
        environment: Any = os.environ
        environment.__class__ = _WatchedEnvironment
        environment.withheld, environment.note = frozenset(names), self._note_withheld

    def _note_withheld(self, name: str) -> None:
        self._wanted_withheld = True
        self._note(_ENVIRONMENT, name)

    @property
    def tried(self) -> tuple[Attempt, ...]:
        """Distinct attempts in order."""
        return tuple(self._tried)

    def refusal(self, error: BaseException | None) -> Attempt | None:
        """Return the attempt that made the code fail because it runs in the copy, or None if it would fail anywhere."""
        if error is None:
            return None
        chain = list(_with_causes(error))
        if any(isinstance(one, MemoryError) for one in chain):
            return Attempt(_MEMORY)
        system_errors = [one for one in chain if isinstance(one, OSError)]
        refused = (
            any(one.errno in self._refused_numbers for one in system_errors)
            or (self._tried and system_errors)
            or self._wanted_withheld
        )
        text = str(error)
        phrase = next((words for words in self._refused_words if words in text), "")
        if not refused and not phrase:
            return None
        if self._latest is not None:
            return self._latest
        paths = [one.filename for one in system_errors if isinstance(one.filename, str | bytes)]
        reason = next((one.strerror.lower() for one in system_errors if one.strerror), phrase)
        return Attempt("read", _name(paths[0])) if paths else Attempt(_THIS, reason[:_LONGEST])

    @property
    def _refused_numbers(self) -> frozenset[int]:
        return _REFUSED if self._overlay is None else _REFUSED | _OF_OVERLAY

    @property
    def _refused_words(self) -> tuple[str, ...]:
        return _REFUSED_WORDS if self._overlay is None else (*_REFUSED_WORDS, *_WORDS_OF_OVERLAY)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _HEARD:  # the vast majority; even `id()` raises an event
            return
        if len(self._tried) >= MOST_ATTEMPTS or self._asks_itself or self._is_taken(event, arguments):
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITE_FLAGS:
                self._note("write", _name(path))
            elif self._may_not_read(path):
                self._note("read", _name(path))
        elif event in _LISTED:
            if self._may_not_read(arguments[0]):
                self._note("read", _name(arguments[0]))
        elif event in _DEEDS_ALONE and not _is_own_pair(event, arguments):
            self._note(_DEEDS_ALONE[event])
        elif event in _DEEDS and not (event == "os.mkdir" and os.path.isdir(arguments[0])):
            self._note(_DEEDS[event], _place(event, arguments))

    def _note(self, deed: Deed, target: str = "") -> None:
        self._latest = Attempt(deed, target)
        self._tried[self._latest] = None

    def _is_taken(self, event: str, arguments: tuple[Any, ...]) -> bool:
        """Return whether the overlay accepts this change of files."""
        places = _PLACES.get(event)
        if self._overlay is None or places is None:
            return False
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITE_FLAGS):
            return False
        if any(isinstance(one, int) and one >= 0 for one in arguments[_FOLDERS_AT.get(event, len(arguments)) :]):
            return True  # relative to an open folder: a refusal there raises an error by itself
        paths = [arguments[place] for place in places]
        return all(isinstance(one, int) or self._overlay.takes(one) for one in paths)

    def _may_not_read(self, path: object) -> bool:
        """Return whether the overlay hides the path or opening it is forbidden.

        This is tried first, since the code may catch the error.
        """
        if self._asks_itself or not isinstance(path, str | bytes):
            return False
        if self._overlay is not None and self._overlay.hides(path):
            return True
        self._asks_itself = True
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except PermissionError:
            return True
        except (OSError, ValueError):
            return False
        finally:
            self._asks_itself = False
        return False


class _WatchedEnvironment(os._Environ[str]):  # pyright: ignore[reportPrivateUsage]
    """Replacement of the class of `os.environ` in a copy."""

    withheld: frozenset[str]
    note: Callable[[str], None]

    def __getitem__(self, key: str) -> str:
        try:
            return super().__getitem__(key)
        except KeyError:
            if key in self.withheld:
                self.note(key)
            raise

    def __iter__(self) -> Iterator[str]:
        sys.audit(ENVIRONMENT_LISTED)
        return super().__iter__()


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__


def _is_own_pair(event: str, arguments: tuple[Any, ...]) -> bool:
    """Return whether this is an AF_UNIX socket, of which every event loop creates a pair."""
    return event == "socket.__new__" and len(arguments) > 1 and arguments[1] == socket.AF_UNIX


def _place(event: str, arguments: tuple[Any, ...]) -> str:
    """Return the path, resolved against its `dir_fd`, which `shutil.rmtree` uses."""
    name = _name(arguments[0])
    opened = [one for one in arguments[_FOLDERS_AT.get(event, len(arguments)) :] if isinstance(one, int) and one >= 0]
    with suppress(OSError, ValueError):
        return os.path.relpath(os.path.join(os.readlink(f"/proc/self/fd/{opened[0]}"), name)) if opened else name
    return name


def _name(value: object) -> str:
    text = os.fsdecode(value) if isinstance(value, bytes) else value
    name = text if type(text) is str else str(value) if type(value) is int else type(value).__name__
    name = name.encode("utf-8", "backslashreplace").decode("utf-8")  # names that aren't UTF-8 can't be reported as JSON
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2 - 1]}…{name[-_LONGEST // 2 :]}"
