"""What the shell can do for the view and the tools."""

import builtins
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter.kernel.ipython_types import searched_names, user_names
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.permissions.secret_shapes import holds_secret, is_secret_name
from vibe_jupyter.ui.front_end import FrontEnd
from vibe_jupyter.variables.secret_values import SecretValues

T = TypeVar("T")

_INPUT: Final = builtins.input


class ShellHost:
    """Probes the shell by its abilities, never by the name of a front end."""

    def __init__(
        self,
        shell: InteractiveShell,
        main_thread: MainThread,
        *,
        page_answers: Callable[[], bool] = lambda: False,
        front_end: Callable[[], FrontEnd] | None = None,
    ) -> None:
        """
        Args:
            shell: IPython's.
            main_thread: the main thread.
            page_answers: whether a page with our extension shows the notebook; may take seconds.
            front_end: makes what shows a run to a program; None where a user is in front of the shell.
        """
        self._shell = cast(Any, shell)
        self.secrets = SecretValues(
            lambda: searched_names(self._shell.user_ns, self._shell.user_ns_hidden),
            names_secret=is_secret_name,
            holds_secret=holds_secret,
        )
        """Looks for secrets in the user's variables."""
        self._main_thread = main_thread
        self._page_answers = page_answers
        self.front_end = front_end

    @property
    def has_kernel(self) -> bool:
        """Whether this is a Jupyter kernel, and not IPython in a terminal."""
        return hasattr(self._shell, "kernel")

    @property
    def allow_stdin(self) -> bool:
        """Whether text can be typed at a prompt. nbconvert and papermill say no, and so do servers that run cells."""
        if self.front_end is not None:
            return False
        return not self.has_kernel or bool(getattr(self._shell.kernel, "_allow_stdin", False))

    @property
    def plain_prompt(self) -> bool:
        """Whether the user asked for a prompt that takes lines only, such as with ``--simple-prompt``."""
        return bool(getattr(self._shell, "simple_prompt", True))

    @property
    def colours(self) -> bool:
        """Whether the user's shell shows colours, as far as it was told."""
        return str(getattr(self._shell, "colors", "")).lower() != "nocolor"

    @property
    def attended(self) -> bool:
        """Whether anyone can answer a question outside of a run: at a prompt, or in a page. Main thread."""
        return self.allow_stdin or self._page_answers()

    async def call_main(self, function: Callable[[], T]) -> T:
        """Run a function on the main thread that only shows something: an interrupt waits for its end."""
        return await self._main_thread.call(function, raises=False)

    async def ask_main(self, function: Callable[[], T]) -> T:
        """Run a function on the main thread that waits for the user: an interrupt is raised in it."""
        return await self._main_thread.call(function)

    def read_line(self, prompt: str) -> str:
        """Ask on the text prompt. Main thread."""
        return builtins.input(prompt)

    @property
    def is_typed(self) -> bool:
        """Whether `input` is Python's own or the kernel's, and nothing that code put in its place."""
        read: Any = builtins.input
        if not self.has_kernel:
            return read is _INPUT
        kernel: Any = self._shell.kernel
        own: Any = kernel.__class__.raw_input
        return getattr(read, "__self__", None) is kernel and read.__func__ is own

    def handled_message(self) -> Mapping[str, Any] | None:
        """The Jupyter message that this thread handles now; None where it handles none."""
        if (handled := self._main_thread.handled) is not None:
            return handled
        try:
            return self._shell.kernel.get_parent() if self.has_kernel else None
        except LookupError:  # ipykernel 7.0 knows no parent in a thread that handles no message
            return None

    def write(self, text: str) -> None:
        """Print. Main thread."""
        print(text, end="", flush=True)

    def namespace(self) -> Mapping[str, object]:
        """The user's variables: no names of IPython's own, none that begin with an underscore. Main thread."""
        return user_names(self._shell.user_ns, self._shell.user_ns_hidden)
