"""Functions of the notebook run where the notebook's code runs: on the main thread, interrupted by ■ like a cell."""

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import cast

from IPython.core.interactiveshell import InteractiveShell
from pydantic import BaseModel

from vibe_jupyter.errors import ToolError
from vibe_jupyter.notebook.capture import OnOutput, kernel_capture, terminal_capture
from vibe_jupyter.notebook.foreground import Foreground
from vibe_jupyter.notebook.nested import run_nested
from vibe_jupyter.notebook.outputs import Outputs
from vibe_jupyter.notebook.pump import Pump
from vibe_jupyter.notebook.shell import Kernel, Shell
from vibe_jupyter.notebook.tools.report import output_text
from vibe_jupyter.tools.base import ToolContext
from vibe_jupyter.tools.custom_tool import WithOutput, settled
from vibe_jupyter.tools.definition import Definition


class MainLane:
    """Borrows the main thread of the cell that serves."""

    def __init__(self, shell: InteractiveShell, pump: Pump | None, foreground: Foreground) -> None:
        self._shell = cast(Shell, shell)
        self._kernel = cast("Kernel | None", getattr(shell, "kernel", None))
        self._pump = pump
        self._foreground = foreground

    async def __call__(self, definition: Definition, args: BaseModel, context: ToolContext) -> object:
        """Call a function there, and collect what it prints."""

        def run() -> WithOutput:
            if context.cancelled() or self._foreground.interrupted:
                raise ToolError("interrupted before it ran")
            outputs = Outputs()
            with self._capture(outputs, context.progress):
                value = self._value(definition, args, context)
            return WithOutput(value, output_text(outputs.collected()))

        return await self._foreground.call(run)

    def _value(self, definition: Definition, args: BaseModel, context: ToolContext) -> object:
        value = definition.call(args, context)
        if not inspect.isawaitable(value) and not hasattr(value, "__aiter__"):
            return value
        serving: AbstractContextManager[None] = nullcontext() if self._pump is None else self._pump.serving()
        with serving:
            return run_nested(settled(value, context))

    def _capture(self, outputs: Outputs, on_output: OnOutput) -> AbstractContextManager[None]:
        if self._kernel is None:
            return terminal_capture(self._shell, outputs, on_output)
        return kernel_capture(self._kernel, outputs, on_output)
