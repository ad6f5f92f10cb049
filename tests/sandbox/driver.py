"""Runs in a kernel: the tool `run_code` with its copies, without an agent around it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from vibe_jupyter.app.kernel_copies import redact_by_own_secrets
from vibe_jupyter.kernel.execution import CodeRunner
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.notebook.tools.exploration import CodeExploration, CodeRun, SecretNames
from vibe_jupyter.notebook.tools.run_cells import RunCodeArgs, RunCodeTool
from vibe_jupyter.permissions.secret_shapes import holds_secret, is_secret_name
from vibe_jupyter.protocol import TextPart, ToolResult
from vibe_jupyter.tools.contract import NotExplored, ToolContext
from vibe_jupyter.variables.kept import VariableLooks
from vibe_jupyter.variables.secret_values import SecretValues

T = TypeVar("T")
WAIT = 30.0
"""Seconds a copy has to end, whatever happens."""


class Explorer:
    """A tool of the kernel's own shell."""

    def __init__(self, shell: Any, project: Path) -> None:
        self._main_thread = MainThread(None)
        self._engine = asyncio.new_event_loop()
        threading.Thread(target=self._engine.run_forever, daemon=True).start()
        looks = VariableLooks(lambda: shell.user_ns).of_code
        self._tool = RunCodeTool(self._main_thread, CodeRunner(shell, None), looks=looks)
        namespace = lambda: shell.user_ns  # noqa: E731
        self.secrets = SecretValues(namespace, names_secret=is_secret_name, holds_secret=holds_secret)
        names = SecretNames(is_secret_name, found=self.secrets, redact=redact_by_own_secrets)
        self.exploration = CodeExploration(self._main_thread, shell, project, names)
        self._tool.exploration = self.exploration

    def start(self, code: str, timeout: float = 5) -> Any:
        """Begin, without waiting: the future of what comes of it."""
        context = ToolContext(call_id="1", progress=lambda _: None, cancelled=lambda: False)
        arguments = RunCodeArgs(code=code, timeout=timeout)
        return asyncio.run_coroutine_threadsafe(self._tool.explore(arguments, context), self._engine)

    def result(self, code: str, timeout: float = 5) -> ToolResult | NotExplored:
        """What comes of code in a copy. Main thread."""
        future = self.start(code, timeout)
        self._main_thread.serve(future, interrupt=future.cancel)
        return future.result(WAIT)

    def in_kernel(self, code: str, *, keep: bool = False) -> ToolResult:
        """What comes of code in the kernel itself. Main thread."""
        arguments = RunCodeArgs(code=code, keep=keep)
        return self.wait(lambda context: self._tool.run(arguments, context._replace(explored="a test's own code")))

    def with_files(self, code: str, timeout: float = 5) -> str:
        """What comes of code in a copy that has files of its own, as `__call__` says it. Main thread."""

        def execute(runner: CodeRunner) -> CodeRun:
            return CodeRun(runner.run(code, keep=False, timeout=timeout, on_output=lambda _: None), (), "")

        ran = self.wait(lambda context: self.exploration.trial(code, timeout, context, execute, writes=True))
        if ran is None:
            return "NOT EXPLORED"
        texts = [str(one.get("text") or one.get("data") or "") for one in ran.result.outputs]
        error = ran.result.error.traceback if ran.result.error is not None else ""
        value = next((str(one["data"]["text/plain"]) for one in ran.result.outputs if "data" in one), "")
        return "\n".join([ran.result.status, value, *texts, error, ran.refused, *ran.attempts, repr(ran.files)])

    def wait(self, work: Callable[[ToolContext], Coroutine[Any, Any, T]]) -> T:
        """What comes of work on the engine's loop. Main thread."""
        context = ToolContext(call_id="1", progress=lambda _: None, cancelled=lambda: False)
        future = asyncio.run_coroutine_threadsafe(work(context), self._engine)
        self._main_thread.serve(future, interrupt=future.cancel)
        return future.result(WAIT)

    def __call__(self, code: str, timeout: float = 5) -> str:
        """The same as the model reads it; why not, where it was not explored."""
        result = self.result(code, timeout)
        if isinstance(result, NotExplored):
            return f"NOT EXPLORED: {result.reason}"
        return "\n".join(part.text for part in result.parts if isinstance(part, TextPart))
