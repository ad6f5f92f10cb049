"""Types for IPython and ipykernel, temporary attribute patches, and namespace diffs.

Much of this is private to ipykernel: `vibe_jupyter.kernel.pump` probes for it, and the kernel matrix tests it.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from vibe_jupyter.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    import zmq

Frames = list["zmq.Frame"]
Message = dict[str, Any]  # a Jupyter message: header, parent_header, metadata and content
Receive = Callable[[Frames], Awaitable[None] | None]

# Names that IPython itself binds in the namespace.
_NOT_OF_THE_CODE: Final = lazy_pattern(r"_{1,3}|_\d+|_i+\d*|_exit_code|_(ih|oh|dh)|__\w+__")

# IPython's own objects. Walking their attributes would traverse the whole shell and kernel.
_LEADS_TO_SHELL: Final = frozenset({"exit", "get_ipython", "quit"})


class ShellStream(Protocol):
    """Interface of `zmq.eventloop.zmqstream.ZMQStream`."""

    socket: "zmq.Socket[bytes]"

    def on_recv(self, callback: Receive, copy: bool = True) -> None: ...
    def flush(self, flag: int) -> int: ...
    def closed(self) -> bool: ...


class KernelSession(Protocol):
    """Interface of `jupyter_client.session.Session`."""

    auth: object | None  # None if messages aren't signed
    send: Callable[..., Message | None]

    def feed_identities(self, msg_list: Frames, copy: bool = True) -> tuple[list[bytes], Frames]: ...
    def sign(self, msg_list: list[bytes]) -> bytes: ...
    def unpack(self, s: bytes) -> Any: ...
    def deserialize(self, msg_list: Frames, content: bool = True, copy: bool = True) -> Message: ...


class IPythonKernel(Protocol):
    """Interface of `ipykernel.ipkernel.IPythonKernel`."""

    session: KernelSession
    iopub_socket: object
    ident: str
    shell_handlers: Mapping[str, Callable[..., object]]

    def get_parent(self, channel: str | None = None) -> Message: ...


class CellResult(Protocol):
    """Interface of `IPython.core.interactiveshell.ExecutionResult`."""

    error_before_exec: BaseException | None
    error_in_exec: BaseException | None
    success: bool


class PayloadManager(Protocol):
    """Requests of a cell to the front end other than output: open a pager, insert a cell, shut down the kernel."""

    def read_payload(self) -> list[dict[str, Any]]: ...
    def write_payload(self, data: dict[str, Any], single: bool = True) -> None: ...
    def clear_payload(self) -> None: ...


class IPythonShell(Protocol):
    """Interface of `IPython.core.interactiveshell.InteractiveShell`."""

    user_ns: MutableMapping[str, object]
    loop_runner: Callable[..., Any]
    loop_runner_map: Mapping[str, tuple[Callable[..., Any], bool]]
    hooks: MutableMapping[str, Callable[..., object]]
    history_manager: object
    displayhook: Any
    display_pub: Any
    payload_manager: PayloadManager
    compile: Any
    ask_exit: Callable[[], None]
    system: Callable[[str], object]
    showtraceback: Callable[..., object]
    getoutput: Callable[..., object]

    def run_cell(self, raw_cell: str, store_history: bool = False) -> CellResult: ...


@contextmanager
def patched_attribute(owner: object, name: str, value: object) -> Generator[None]:
    """Temporarily set an attribute on one object, shadowing any attribute of its class."""
    own = vars(owner)
    had, before = name in own, own.get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if had:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


class NamespaceChanges:
    """Snapshot of a namespace's bindings, compared with the current ones after code ran."""

    def __init__(self, namespace: MutableMapping[str, object]) -> None:
        self._namespace = namespace
        self._before = dict(namespace)

    def created(self) -> tuple[str, ...]:
        return _of_the_code(name for name in list(self._namespace) if name not in self._before)

    def changed(self) -> tuple[str, ...]:
        """Return the names that were rebound or deleted."""
        return _of_the_code(name for name in self._before if not self._is_same(name))

    def restore(self) -> None:
        """Restore all bindings. Objects mutated in place stay changed."""
        for name in [name for name in list(self._namespace) if name not in self._before]:
            del self._namespace[name]
        for name in [name for name in self._before if not self._is_same(name)]:
            self._namespace[name] = self._before[name]

    def _is_same(self, name: str) -> bool:
        return name in self._namespace and self._namespace[name] is self._before[name]


def user_names(namespace: Mapping[str, object], hidden: Mapping[str, object]) -> dict[str, object]:
    """Return the user's variables, without IPython's names and those with a leading underscore.

    Keys of `globals()` that aren't identifiers are skipped too.
    """
    return {
        name: value
        for name, value in dict(namespace).items()  # copied first: a user's thread may add names during iteration
        if type(name) is str
        and name.isidentifier()
        and not name.startswith("_")
        and (name not in hidden or value is not hidden[name])
    }


def searched_names(namespace: Mapping[str, object], hidden: Mapping[str, object]) -> dict[str, object]:
    """Return everything that may hold a user's value, including the output history, except references to the shell."""
    return {
        name: value
        for name, value in dict(namespace).items()
        if type(name) is str and (name not in _LEADS_TO_SHELL or value is not hidden.get(name))
    }


def _of_the_code(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if _is_name(name) and not _NOT_OF_THE_CODE.fullmatch(name)))


def _is_name(key: object) -> bool:
    return type(key) is str and key.isidentifier()
