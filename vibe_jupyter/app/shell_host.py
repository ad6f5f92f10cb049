"""The kernel that an app runs in, and the adapter that offers its shell's abilities to the view and the tools."""

import builtins
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.kernel.interrupts import Presses
from vibe_jupyter.kernel.ipython_types import searched_names, user_names
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.pump import Pump
from vibe_jupyter.permissions.secret_shapes import holds_secret, is_secret_name
from vibe_jupyter.ui.front_end import FrontEnd
from vibe_jupyter.variables.secret_values import SecretValues

if TYPE_CHECKING:
    from vibe_jupyter.app.notebook_access import NotebookAccess

T = TypeVar("T")

_INPUT: Final = builtins.input


class ShellHost:
    """The shell as seen by the view and the tools. Checks its abilities rather than the name of a front end."""

    def __init__(
        self,
        shell: InteractiveShell,
        main_thread: MainThread,
        *,
        page_answers: Callable[[], bool] = lambda: False,
        front_end: Callable[[], FrontEnd] | None = None,
    ) -> None:
        """Wrap a shell.

        Args:
            shell: The IPython shell.
            main_thread: Queue of calls for the main thread.
            page_answers: Returns whether a page with our extension shows the notebook; may take seconds.
            front_end: Creates the front end if a program reads the runs; None if a user is at the shell.
        """
        self._shell = cast(Any, shell)
        # Finds secrets in the user's variables.
        self.secrets = SecretValues(
            lambda: searched_names(self._shell.user_ns, self._shell.user_ns_hidden),
            names_secret=is_secret_name,
            holds_secret=holds_secret,
        )
        self._main_thread = main_thread
        self._page_answers = page_answers
        self.front_end = front_end

    @property
    def has_kernel(self) -> bool:
        """True in a Jupyter kernel, False for IPython in a terminal."""
        return hasattr(self._shell, "kernel")

    @property
    def allow_stdin(self) -> bool:
        """True if text can be entered at a prompt. False for nbconvert, papermill, and servers that run cells."""
        if self.front_end is not None:
            return False
        return not self.has_kernel or bool(getattr(self._shell.kernel, "_allow_stdin", False))

    @property
    def plain_prompt(self) -> bool:
        """True if the prompt only reads lines, as with `--simple-prompt`."""
        return bool(getattr(self._shell, "simple_prompt", True))

    @property
    def colours(self) -> bool:
        """True unless the shell's settings disable colors."""
        return str(getattr(self._shell, "colors", "")).lower() != "nocolor"

    @property
    def attended(self) -> bool:
        """True if a user can answer a question outside of a run, at a prompt or in a page. Main thread only."""
        return self.allow_stdin or self._page_answers()

    async def call_main(self, function: Callable[[], T]) -> T:
        """Run a function that only displays something on the main thread. An interrupt waits until it returns."""
        return await self._main_thread.call(function, raises=False)

    async def ask_main(self, function: Callable[[], T]) -> T:
        """Run a function that waits for the user on the main thread. An interrupt is raised in it."""
        return await self._main_thread.call(function)

    def read_line(self, prompt: str) -> str:
        """Read a line at the text prompt. Main thread only."""
        return builtins.input(prompt)

    @property
    def is_typed(self) -> bool:
        """True if `input` is Python's or the kernel's own and hasn't been replaced by other code."""
        read: Any = builtins.input
        if not self.has_kernel:
            return read is _INPUT
        kernel: Any = self._shell.kernel
        own: Any = kernel.__class__.raw_input
        return getattr(read, "__self__", None) is kernel and read.__func__ is own

    def handled_message(self) -> Mapping[str, Any] | None:
        """Return the Jupyter message that this thread is handling, if any."""
        if (handled := self._main_thread.handled) is not None:
            return handled
        try:
            return self._shell.kernel.get_parent() if self.has_kernel else None
        except LookupError:  # ipykernel 7.0 raises in threads that handle no message
            return None

    def write(self, text: str) -> None:
        """Print a text. Main thread only."""
        print(text, end="", flush=True)

    def namespace(self) -> Mapping[str, object]:
        """Return the user's variables, without IPython's own and those with a leading underscore. Main thread only."""
        return user_names(self._shell.user_ns, self._shell.user_ns_hidden)


class Kernel(NamedTuple):
    """One kernel, or IPython in a terminal, which has neither pump nor notebook."""

    shell: InteractiveShell
    pump: Pump | None
    presses: Presses
    engine: Engine
    main_thread: MainThread
    host: ShellHost
    workspace: Workspace
    notebook: "NotebookAccess | None"
    folder: Path  # the working folder at start
    home: Path  # the user's vibe folder
