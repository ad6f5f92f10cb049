"""When a form is shown that connects a model: by `%vibe setup`, and by a prompt that no model can be asked.

The prompt is sent once there is a model. What the form needs is imported when it is shown.
"""

import concurrent.futures
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final, NamedTuple

from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.app.run_view import BegunRun, Reply, RunSummary
from vibe_jupyter.app.shell_host import ShellHost
from vibe_jupyter.errors import MissingModel, ModelError
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.options import Options
from vibe_jupyter.protocol import Usage
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.app.model_setup import ModelSetup
    from vibe_jupyter.app.notebook_access import NotebookAccess
    from vibe_jupyter.app.shown_form import FormEnd, ShownForm

_CONNECT_AGAIN: Final = frozenset({"auth", "not_found", "connection"})
"""Refusals that another key, address or model may help against."""
_PLACEHOLDER: Final = "Connect a model in the form that is shown here, or run %vibe setup."
_CHOOSE: Final = "Choose a model provider."

RunSteps = Generator[BegunRun, RunSummary, Reply]


class FormParts(NamedTuple):
    """What a form needs beside the kernel's threads."""

    setup: "ModelSetup"
    refusal: ModelError | None
    """Why the model server refused the latest request of a run; None where it did not."""
    notebook: "NotebookAccess | None"
    """Knows which page the cell is in."""


class ConnectForm:
    """One for a kernel; shown from the main thread."""

    def __init__(
        self,
        engine: Engine,
        main_thread: MainThread,
        host: ShellHost,
        parts: Callable[[], FormParts],
    ) -> None:
        """
        Args:
            engine: asks servers.
            main_thread: reads and writes settings.
            host: the shell.
            parts: gives the rest, as it is then.
        """
        self._engine = engine
        self._main_thread = main_thread
        self._host = host
        self._parts = parts
        self._shown: ShownForm | None = None
        """The form that is open."""
        self._is_called_off = False

    def until_connected(
        self, failed: "Reply | MissingModel", run: Callable[[Options], RunSteps], options: Options
    ) -> RunSteps:
        """The runs of a prompt after one that failed, with the form where no model can be asked or a server takes not
        even the first request.

        Args:
            failed: how it ended, or why it could not begin.
            run: takes the prompt with these options.
            options: of the cell. What it says of the model is left out once the user has connected one.

        Raises:
            MissingModel: there is none, and the user connected none.
        """
        while True:
            if isinstance(failed, MissingModel):
                end = self.show(str(failed), runs_cell=True)
                if self._is_called_off:
                    return Reply(text="", reason="interrupted", usage=Usage(), turns=0, seconds=0.0)
                if end is None:
                    raise failed
                if not end.connected:
                    raise MissingModel(end.text)
            else:
                refusal = self._parts().refusal if failed.reason == "error" and failed.turns < 2 else None
                if refusal is None or refusal.kind not in _CONNECT_AGAIN:
                    return failed
                end = self.show(str(refusal), runs_cell=True)
                if self._is_called_off:
                    return failed.model_copy(update={"reason": "interrupted"})
                if end is None or not end.connected:
                    return failed
            options = options._replace(model=None)
            try:
                failed = yield from run(options)
            except MissingModel as missing:
                failed = missing

    def show(self, reason: str = "", *, runs_cell: bool = False) -> "FormEnd | None":
        """Show it until the user has connected a model or wants none; None where no page draws it. Main thread.

        Args:
            reason: why a model is needed; empty where the user asked for the form.
            runs_cell: whether the prompt of the cell is sent then.
        """
        self._is_called_off = False
        if not self._host.has_kernel or not self._host.attended:
            return None
        with without_working_folder():
            from vibe_jupyter.app.shown_form import CANCELLED, FormEnd, FormTerms, ShownForm
            from vibe_jupyter.ui.connect_page import can_show_form
        if not can_show_form():
            return None
        parts = self._parts()
        if parts.notebook is not None:
            parts.notebook.begin()
        over: concurrent.futures.Future[FormEnd | None] = concurrent.futures.Future()
        shown = self._shown = ShownForm(parts.setup, FormTerms(reason, runs_cell), self._host.call_main, over)
        shown.page.open(_PLACEHOLDER)
        task = self._engine.submit(shown.work())
        end: FormEnd | None = FormEnd(False, CANCELLED)
        try:
            self._main_thread.serve(over, interrupt=shown.cancel)
            end = over.result(0)
        finally:
            self._shown = None
            task.cancel()
            shown.page.close(_CHOOSE if end is None else end.text)
        return end

    @property
    def is_open(self) -> bool:
        """Whether it waits for the user."""
        return self._shown is not None

    def call_off(self) -> None:
        """Its cell was run again, which took it away: end for the sake of the run that waits. Main thread."""
        self._is_called_off = True
        self.page_loaded()

    def page_loaded(self) -> None:
        """A page was reloaded, and a form that it showed is gone. Any thread."""
        if (shown := self._shown) is not None:
            shown.cancel()
