"""The form that connects a model, shown by `%vibe setup` and by a prompt that no model can answer.

The prompt is sent once a model is connected. Modules that the form needs are imported when it is shown.
"""

import concurrent.futures
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final, NamedTuple

from vibe_jupyter.app.run_view import BegunRun, Reply, RunSummary
from vibe_jupyter.app.shell_host import Kernel
from vibe_jupyter.errors import MissingModel, ModelError
from vibe_jupyter.options import Options
from vibe_jupyter.protocol import Usage
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.app.model_setup import ModelSetup
    from vibe_jupyter.app.notebook_access import NotebookAccess
    from vibe_jupyter.app.shown_form import FormEnd, ShownForm

# Errors that another key, address or model may fix.
_CONNECT_AGAIN: Final = frozenset({"auth", "not_found", "connection"})
_PLACEHOLDER: Final = "Connect a model in the form that is shown here, or run %vibe setup."
_CHOOSE: Final = "Choose a model provider."

RunSteps = Generator[BegunRun, RunSummary, Reply]


class FormParts(NamedTuple):
    """Dependencies of the form other than the kernel's threads."""

    setup: "ModelSetup"
    refusal: ModelError | None  # error of the latest model request of a run, or None if it succeeded
    notebook: "NotebookAccess | None"  # knows which page shows the cell


class ConnectForm:
    """Connect form of one kernel. Main thread only."""

    def __init__(self, kernel: Kernel, parts: Callable[[], FormParts]) -> None:
        """Create the form's controller without showing anything.

        Args:
            kernel: The kernel that shows it.
            parts: Returns the other dependencies as of the call.
        """
        self._engine = kernel.engine
        self._main_thread = kernel.main_thread
        self._host = kernel.host
        self._parts = parts
        self._shown: ShownForm | None = None  # the open form
        self._is_called_off = False

    def until_connected(
        self, failed: "Reply | MissingModel", run: Callable[[Options], RunSteps], options: Options
    ) -> RunSteps:
        """Retry a failed prompt, showing the form while no model is connected or the first request is refused.

        Args:
            failed: Reply of the failed run, or the error that kept it from starting.
            run: Runs the prompt with the given options.
            options: Options of the cell. Their model is dropped once the user has connected one.

        Raises:
            MissingModel: No model is configured, and the user connected none.
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
        """Show the form until the user connects a model or cancels. Returns None if no page draws it. Main thread only.

        Args:
            reason: Why a model is needed, or "" if the user opened the form.
            runs_cell: Whether connecting a model sends the cell's prompt.
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
        """True while waiting for user input."""
        return self._shown is not None

    def call_off(self) -> None:
        """Cancel the form and its prompt because the cell was run again, which removed the form. Main thread only."""
        self._is_called_off = True
        self.page_loaded()

    def page_loaded(self) -> None:
        """Cancel the form, since a page reload has removed it. Thread-safe."""
        if (shown := self._shown) is not None:
            shown.cancel()
