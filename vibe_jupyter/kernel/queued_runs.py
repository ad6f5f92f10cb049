"""Track queued cells until they finish.

The kernel runs them like the user's own. They are identified by the id of the request that the front end sent.
"""

import contextlib
import time
from dataclasses import dataclass, field
from typing import Any, Final, cast

from vibe_jupyter.kernel.execution import raised_error
from vibe_jupyter.kernel.ipython_types import IPythonKernel, NamespaceChanges
from vibe_jupyter.kernel.outputs import CollectedOutputs, collect_outputs
from vibe_jupyter.protocol import ExecutionResult

_BEGINS: Final = "pre_run_cell"
_ENDS: Final = "post_run_cell"


@dataclass(eq=False)
class QueuedRun:
    """A queued cell and its outcome."""

    request: str
    began: float | None = None  # `time.monotonic()`, None until it begins
    result: ExecutionResult | None = None  # None until it ends
    depth: int = 0  # nesting of IPython executions in it: code may run more code
    outputs: CollectedOutputs = field(default_factory=CollectedOutputs)


class QueuedRuns:
    """Tracker of one kernel's queued cells. Main thread only."""

    def __init__(self, shell: object) -> None:
        self._shell = cast(Any, shell)
        self._kernel = cast(IPythonKernel, self._shell.kernel)
        self._waiting: dict[str, QueuedRun] = {}
        self._running: tuple[QueuedRun, NamespaceChanges, contextlib.ExitStack] | None = None
        self._shell.events.register(_BEGINS, self._on_begin)
        self._shell.events.register(_ENDS, self._on_end)

    def watch(self, request: str) -> QueuedRun:
        """Track the queued request with this id, which must not have begun."""
        return self._waiting.setdefault(request, QueuedRun(request))

    def forget(self, run: QueuedRun) -> None:
        """Stop tracking a request."""
        self._waiting.pop(run.request, None)

    def close(self) -> None:
        """Stop tracking all requests and unregister the callbacks."""
        self._waiting.clear()
        for event, hear in ((_BEGINS, self._on_begin), (_ENDS, self._on_end)):
            if hear in self._shell.events.callbacks[event]:
                self._shell.events.unregister(event, hear)

    def _on_begin(self, _info: object) -> None:
        if self._running is not None:
            self._running[0].depth += 1
            return
        request = str(self._kernel.get_parent("shell").get("header", {}).get("msg_id", ""))
        run = self._waiting.pop(request, None)
        if run is not None:
            run.began, run.depth = time.monotonic(), 1
            stack = contextlib.ExitStack()
            stack.enter_context(collect_outputs(self._kernel, request, run.outputs))
            self._running = run, NamespaceChanges(self._shell.user_ns), stack

    def _on_end(self, result: Any) -> None:
        if self._running is None:
            return
        run, names, stack = self._running
        run.depth -= 1
        if run.depth:
            return
        self._running = None
        stack.close()
        outputs = run.outputs.collected()
        raised = result.error_before_exec or result.error_in_exec
        status = "ok" if result.success else "interrupted" if isinstance(raised, KeyboardInterrupt) else "error"
        run.result = ExecutionResult(
            status=status,
            outputs=outputs,
            execution_count=result.execution_count,
            error=raised_error(raised, outputs) if status == "error" else None,
            seconds=time.monotonic() - (run.began or time.monotonic()),
            names_created=names.created(),
            names_changed=names.changed(),
        )
