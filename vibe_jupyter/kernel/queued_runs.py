"""Cells that wait in the kernel's queue for somebody who wants to know what becomes of them.

The kernel runs them as it runs the user's own. They are known by the request that the page sent.
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
    """One request for a cell."""

    request: str
    began: float | None = None
    """By `time.monotonic`; None before."""
    result: ExecutionResult | None = None
    """None until its end."""
    depth: int = 0
    """How many executions of IPython are open in it: code may run more code."""
    outputs: CollectedOutputs = field(default_factory=CollectedOutputs)


class QueuedRuns:
    """Those of one kernel. Main thread."""

    def __init__(self, shell: object) -> None:
        self._shell = cast(Any, shell)
        self._kernel = cast(IPythonKernel, self._shell.kernel)
        self._waiting: dict[str, QueuedRun] = {}
        self._running: tuple[QueuedRun, NamespaceChanges, contextlib.ExitStack] | None = None
        self._shell.events.register(_BEGINS, self._on_begin)
        self._shell.events.register(_ENDS, self._on_end)

    def watch(self, request: str) -> QueuedRun:
        """What becomes of the request with this id, which has not begun."""
        return self._waiting.setdefault(request, QueuedRun(request))

    def forget(self, run: QueuedRun) -> None:
        """It is not looked at any more."""
        self._waiting.pop(run.request, None)

    def close(self) -> None:
        """Hear of nothing any more."""
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
