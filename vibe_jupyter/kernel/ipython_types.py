"""What this package uses of IPython: its shell as types, attributes set for a while, and the names that code binds.

Much of it is private to ipykernel: `vibe_jupyter.kernel.pump` probes for it, and the kernel matrix tests it.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from vibe_jupyter.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    import zmq

Frames = list["zmq.Frame"]
Message = dict[str, Any]
"""A Jupyter message, with ``header``, ``parent_header``, ``metadata`` and ``content``."""
Receive = Callable[[Frames], Awaitable[None] | None]

_NOT_OF_THE_CODE: Final = lazy_pattern(r"_{1,3}|_\d+|_i+\d*|_exit_code|_(ih|oh|dh)|__\w+__")
"""Names that IPython itself keeps in the namespace."""

_LEADS_TO_SHELL: Final = frozenset({"exit", "get_ipython", "quit"})
"""IPython's own: who walks their attributes walks all of the shell and the kernel."""


class ShellStream(Protocol):
    """A `zmq.eventloop.zmqstream.ZMQStream`."""

    socket: "zmq.Socket[bytes]"

    def on_recv(self, callback: Receive, copy: bool = True) -> None: ...
    def flush(self, flag: int) -> int: ...
    def closed(self) -> bool: ...


class KernelSession(Protocol):
    """A `jupyter_client.session.Session`."""

    auth: object | None
    """None where messages carry no signature."""
    send: Callable[..., Message | None]

    def feed_identities(self, msg_list: Frames, copy: bool = True) -> tuple[list[bytes], Frames]: ...
    def sign(self, msg_list: list[bytes]) -> bytes: ...
    def unpack(self, s: bytes) -> Any: ...
    def deserialize(self, msg_list: Frames, content: bool = True, copy: bool = True) -> Message: ...


class IPythonKernel(Protocol):
    """An `ipykernel.ipkernel.IPythonKernel`."""

    session: KernelSession
    iopub_socket: object
    ident: str
    shell_handlers: Mapping[str, Callable[..., object]]

    def get_parent(self, channel: str | None = None) -> Message: ...


class CellResult(Protocol):
    """An `IPython.core.interactiveshell.ExecutionResult`."""

    error_before_exec: BaseException | None
    error_in_exec: BaseException | None
    success: bool


class PayloadManager(Protocol):
    """What a cell asks of the front end besides output: a pager, a new cell, the end of the kernel."""

    def read_payload(self) -> list[dict[str, Any]]: ...
    def write_payload(self, data: dict[str, Any], single: bool = True) -> None: ...
    def clear_payload(self) -> None: ...


class IPythonShell(Protocol):
    """An `IPython.core.interactiveshell.InteractiveShell`."""

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
    """Set an attribute of one object for a while, also one that its class defines."""
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
    """The namespace as it was; ask after the code ran."""

    def __init__(self, namespace: MutableMapping[str, object]) -> None:
        self._namespace = namespace
        self._before = dict(namespace)

    def created(self) -> tuple[str, ...]:
        return _of_the_code(name for name in list(self._namespace) if name not in self._before)

    def changed(self) -> tuple[str, ...]:
        """Bound to another object, or unbound."""
        return _of_the_code(name for name in self._before if not self._is_same(name))

    def restore(self) -> None:
        """Bind everything as it was. Objects changed in place stay changed."""
        for name in [name for name in list(self._namespace) if name not in self._before]:
            del self._namespace[name]
        for name in [name for name in self._before if not self._is_same(name)]:
            self._namespace[name] = self._before[name]

    def _is_same(self, name: str) -> bool:
        return name in self._namespace and self._namespace[name] is self._before[name]


def user_names(namespace: Mapping[str, object], hidden: Mapping[str, object]) -> dict[str, object]:
    """The user's variables: no names of IPython's own, none that begin with an underscore.

    `globals()` takes any key; what code cannot name is no variable.
    """
    return {
        name: value
        for name, value in dict(namespace).items()  # a thread of the user's may add names meanwhile
        if type(name) is str
        and name.isidentifier()
        and not name.startswith("_")
        and (name not in hidden or value is not hidden[name])
    }


def searched_names(namespace: Mapping[str, object], hidden: Mapping[str, object]) -> dict[str, object]:
    """Everything that may hold a value of the user's, also the history of outputs: all but what leads to the shell."""
    return {
        name: value
        for name, value in dict(namespace).items()
        if type(name) is str and (name not in _LEADS_TO_SHELL or value is not hidden.get(name))
    }


def _of_the_code(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if _is_name(name) and not _NOT_OF_THE_CODE.fullmatch(name)))


def _is_name(key: object) -> bool:
    return type(key) is str and key.isidentifier()
