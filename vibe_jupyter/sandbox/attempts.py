"""What code in the copy tried that the copy may not, in words. Explains, and protects nothing."""

import errno
import os
import socket
import sys
from collections.abc import Iterator
from typing import Any, Final

MOST_ATTEMPTS: Final = 20
"""Of one copy that are reported."""
_LONGEST: Final = 120
"""Characters of one."""
_REFUSED: Final = frozenset({errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOSYS, errno.EFBIG})
_REFUSED_WORDS: Final = (os.strerror(errno.EPERM), os.strerror(errno.EACCES))
_WRITE_FLAGS: Final = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC | os.O_APPEND
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
_WORDS_ALONE: Final = {
    **dict.fromkeys(("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen"), _PROGRAM),
    **dict.fromkeys(("socket.__new__", "socket.connect", "socket.getaddrinfo"), _NETWORK),
}


class Attempts:
    """Listens to Python's own audit events from now on; there is no end to it."""

    def __init__(self) -> None:
        self._said: dict[str, None] = {}

    def listen(self) -> None:
        """In the copy only."""
        sys.addaudithook(self._hear)

    @property
    def words(self) -> tuple[str, ...]:
        """What was tried, in order, such as ``write out.csv``."""
        return tuple(self._said)

    def refusal(self, error: BaseException | None) -> str:
        """What the code ended with because it is in the copy, in words; empty where it would have ended anyway."""
        if error is None:
            return ""
        chain = list(_with_causes(error))
        system_errors = [one for one in chain if isinstance(one, OSError)]
        refused = any(one.errno in _REFUSED for one in system_errors) or (self._said and system_errors)
        text = str(error)
        if not refused and not any(words in text for words in _REFUSED_WORDS):
            return ""
        said = next(reversed(self._said), "")
        paths = [one.filename for one in system_errors if isinstance(one.filename, str | bytes)]
        return said or (_shortened(f"read {_name(paths[0])}") if paths else _shortened(f"do this: {text}"))

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if len(self._said) >= MOST_ATTEMPTS:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITE_FLAGS:
                self._said[_shortened(f"write {_name(path)}")] = None
        elif event in _WORDS_ALONE and not _is_own_pair(event, arguments):
            self._said[_WORDS_ALONE[event]] = None
        elif event in _WORDS and not (event == "os.mkdir" and os.path.isdir(arguments[0])):
            self._said[_shortened(f"{_WORDS[event]} {_name(arguments[0])}")] = None


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


def _name(value: object) -> str:
    if isinstance(value, bytes):
        return os.fsdecode(value)
    return value if type(value) is str else str(value) if type(value) is int else type(value).__name__


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
