"""What code in the copy tried that the copy may not, in words. Explains, and protects nothing."""

import errno
import os
import socket
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Any, Final

from vibe_jupyter.sandbox.overlay import ProjectOverlay

MOST_ATTEMPTS: Final = 20
"""Of one copy that are reported."""
_LONGEST: Final = 120
"""Characters of one."""
_REFUSED: Final = frozenset({errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOSYS, errno.EFBIG, errno.EBADF})
"""A file that was open before is open for reading in the copy: EBADF."""
_REFUSED_WORDS: Final = (
    *(os.strerror(errno.EPERM), os.strerror(errno.EACCES), os.strerror(errno.EBADF)),
    *("unable to open database file", "readonly database", "disk I/O error"),
)
_OF_OVERLAY: Final = frozenset(
    (
        *(errno.EXDEV, errno.ENOSPC, errno.EDQUOT, errno.EOVERFLOW, errno.EBUSY, errno.EIO),
        *(errno.ESTALE, errno.EOPNOTSUPP, errno.EINVAL),
    )
)
"""With which an overlay may fail where the project's folder would not."""
_WORDS_OF_OVERLAY: Final = tuple(map(os.strerror, _OF_OVERLAY | {errno.EROFS, errno.EFBIG}))
_WRITE_FLAGS: Final = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | os.O_APPEND
ENVIRONMENT_LISTED: Final = "vibe_jupyter.environment_listed"
"""An audit event of ours: code looks at all variables of the environment, of which a copy has not all."""
_LISTED: Final = frozenset({"os.listdir", "os.scandir"})
_PROGRAM, _NETWORK = "start a program", "use the network"
_WORDS: Final = {
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
    "os.kill": "send a signal to process",
}
_PLACES: Final = {
    **dict.fromkeys(("open", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"), (0,)),
    **dict.fromkeys(("os.rename", "os.link"), (0, 1)),
    "os.symlink": (1,),
}
"""Which arguments of changes that an overlay takes say where."""
_FOLDERS_AT: Final = {"os.remove": 1, "os.rmdir": 1, "os.mkdir": 2, "os.rename": 2, "os.link": 2, "os.symlink": 2}
"""From which argument on they name opened folders, -1 for none."""
_WORDS_ALONE: Final = {
    **dict.fromkeys(("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen"), _PROGRAM),
    **dict.fromkeys(("socket.__new__", "socket.connect", "socket.getaddrinfo"), _NETWORK),
}
_HEARD: Final = frozenset({"open", *_LISTED, *_WORDS, *_WORDS_ALONE})


class Attempts:
    """Listens to Python's own audit events from now on; there is no end to it."""

    def __init__(self, overlay: ProjectOverlay | None = None) -> None:
        """
        Args:
            overlay: where the copy may write; None for nowhere.
        """
        self._overlay = overlay
        self._said: dict[str, None] = {}
        self._asks_itself = False
        self._wanted_withheld = False

    def listen(self) -> None:
        """In the copy only."""
        sys.addaudithook(self._hear)

    def withhold(self, names: Collection[str]) -> None:
        """Take these variables from the environment, and note who asks for one. In the copy only."""
        for name in names:
            del os.environ[name]
        environment: Any = os.environ
        environment.__class__ = _WatchedEnvironment
        environment.withheld, environment.note = frozenset(names), self._note_withheld

    def _note_withheld(self, name: str) -> None:
        self._wanted_withheld = True
        self._said[_shortened(f"read the environment variable {name}")] = None

    @property
    def words(self) -> tuple[str, ...]:
        """What was tried, in order, such as ``write out.csv``."""
        return tuple(self._said)

    def refusal(self, error: BaseException | None) -> str:
        """What the code ended with because it is in the copy, in words; empty where it would have ended anyway."""
        if error is None:
            return ""
        chain = list(_with_causes(error))
        if any(isinstance(one, MemoryError) for one in chain):
            return "take that much memory"
        system_errors = [one for one in chain if isinstance(one, OSError)]
        refused = (
            any(one.errno in self._refused_numbers for one in system_errors)
            or (self._said and system_errors)
            or self._wanted_withheld
        )
        text = str(error)
        if not refused and not any(words in text for words in self._refused_words):
            return ""
        said = next(reversed(self._said), "")
        paths = [one.filename for one in system_errors if isinstance(one.filename, str | bytes)]
        words = next((one.strerror.lower() for one in system_errors if one.strerror), text)
        return said or (_shortened(f"read {_name(paths[0])}") if paths else _shortened(f"do this: {words}"))

    @property
    def _refused_numbers(self) -> frozenset[int]:
        return _REFUSED if self._overlay is None else _REFUSED | _OF_OVERLAY

    @property
    def _refused_words(self) -> tuple[str, ...]:
        return _REFUSED_WORDS if self._overlay is None else (*_REFUSED_WORDS, *_WORDS_OF_OVERLAY)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _HEARD:  # nearly all: each `id` is one
            return
        if len(self._said) >= MOST_ATTEMPTS or self._asks_itself or self._is_taken(event, arguments):
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITE_FLAGS:
                self._said[_shortened(f"write {_name(path)}")] = None
            elif self._may_not_read(path):
                self._said[_shortened(f"read {_name(path)}")] = None
        elif event in _LISTED:
            if self._may_not_read(arguments[0]):
                self._said[_shortened(f"read {_name(arguments[0])}")] = None
        elif event in _WORDS_ALONE and not _is_own_pair(event, arguments):
            self._said[_WORDS_ALONE[event]] = None
        elif event in _WORDS and not (event == "os.mkdir" and os.path.isdir(arguments[0])):
            self._said[_shortened(f"{_WORDS[event]} {_place(event, arguments)}")] = None

    def _is_taken(self, event: str, arguments: tuple[Any, ...]) -> bool:
        """Whether it is a change of files that the overlay takes."""
        places = _PLACES.get(event)
        if self._overlay is None or places is None:
            return False
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITE_FLAGS):
            return False
        if any(isinstance(one, int) and one >= 0 for one in arguments[_FOLDERS_AT.get(event, len(arguments)) :]):
            return True  # in a folder that was opened: what is refused there fails by itself
        paths = [arguments[place] for place in places]
        return all(isinstance(one, int) or self._overlay.takes(os.fsdecode(one)) for one in paths)

    def _may_not_read(self, path: object) -> bool:
        """Found out by trying: what is refused may be caught, and looked for elsewhere, by the code or a library."""
        if self._asks_itself or not isinstance(path, str | bytes):
            return False
        if self._overlay is not None and self._overlay.hides(os.fsdecode(path)):
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
    """What `os.environ` is in a copy."""

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
    """Whether it is a socket as every event loop makes for itself."""
    return event == "socket.__new__" and len(arguments) > 1 and arguments[1] == socket.AF_UNIX


def _place(event: str, arguments: tuple[Any, ...]) -> str:
    """The path, also where it is a name in a folder that was opened, as `shutil.rmtree` goes through folders."""
    name = _name(arguments[0])
    opened = [one for one in arguments[_FOLDERS_AT.get(event, len(arguments)) :] if isinstance(one, int) and one >= 0]
    with suppress(OSError, ValueError):
        return os.path.relpath(os.path.join(os.readlink(f"/proc/self/fd/{opened[0]}"), name)) if opened else name
    return name


def _name(value: object) -> str:
    if isinstance(value, bytes):
        return os.fsdecode(value)
    return value if type(value) is str else str(value) if type(value) is int else type(value).__name__


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
