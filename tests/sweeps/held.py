"""SIGKILL of a kernel at random moments of a run: the document holds every step that the user saw end.

The page is played by messages: it says that it draws the view, and keeps what the cell shows as a front end does.
"""

import contextlib
import os
import queue
import random
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.blocking.client import BlockingKernelClient
from nbconvert import HTMLExporter

from tests.sweeps.kills import Kernels, kernels, make_folders, run_cell
from vibe_jupyter.testing import ModelRequest, Reply, ScriptedModel, answer, call, say

COUNT = 50
LATEST = 0.6
"""Seconds after a request in which the kernel is killed."""
STEPS = 6
PROMPT = "%%vibe --yes=run_code\ngo"
SILENCE = 0.3
"""Seconds without a message after which a killed kernel has said all."""
ENDED = re.compile(r"ended (\d+)")
WIDGET = "application/vnd.jupyter.widget-view+json"


def sweep(count: int, seed: int) -> Iterator[str]:
    chosen = random.Random(seed)
    seen: Counter[int] = Counter()
    with ExitStack() as stack:
        model = stack.enter_context(ScriptedModel(_reply))
        forks = stack.enter_context(kernels())
        for number in range(count):
            folder = Path(tempfile.mkdtemp(prefix="vibe-kill-"))
            try:
                yield from (f"try {number}: {wrong}" for wrong in _try(forks, model, folder, chosen, seen))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    print(f"held: {', '.join(f'{times} after {steps} steps' for steps, times in sorted(seen.items()))}", flush=True)


def _reply(request: ModelRequest) -> Reply:
    done = len(request.tool_results)
    if done >= STEPS:
        return say("Done.")
    code = f"import time\ntime.sleep({0.05 * done})\nprint('ended', {done})"
    return answer(f"Turn {done}.", [call("run_code", code=code)])


class Page:
    """The half of a front end that a run needs: it says that it is there, and keeps what is shown."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.ended: set[str] = set()
        """Numbers of the steps that the live view showed as ended."""
        self._client = client
        self._outputs: dict[str, dict[str, Any]] = {}

    def hear_rest(self) -> None:
        """Take what a killed kernel still said."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(self._client.get_iopub_msg(timeout=SILENCE))

    def hear_for(self, seconds: float) -> None:
        """Take messages for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                self._take(self._client.get_iopub_msg(timeout=left))
            except queue.Empty:
                return

    def notebook(self) -> nbformat.NotebookNode:
        """What is saved."""
        outputs = [nbformat.v4.new_output("display_data", data=data) for data in self._outputs.values()]
        return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(PROMPT, outputs=outputs)])

    def _take(self, message: dict[str, Any]) -> None:
        content = message["content"]
        match message["msg_type"]:
            case "comm_open" if "anywidget" in str(content["data"].get("state", {}).get("_model_module", "")):
                self._say(content["comm_id"], "loaded")
                self._say(content["comm_id"], "alive")
            case "comm_msg":
                told = content["data"].get("content") or {}
                for part in [*told.get("patches", ()), *told.get("parts", ())]:
                    if 'data-outcome="ok"' in part.get("html", ""):
                        self.ended.update(ENDED.findall(part["html"]))
            case "display_data" | "update_display_data":
                self._outputs[content["transient"].get("display_id", message["header"]["msg_id"])] = content["data"]
            case _:
                pass

    def _say(self, comm: str, what: str) -> None:
        content = {"comm_id": comm, "data": {"method": "custom", "content": {"type": what}}}
        self._client.shell_channel.send(self._client.session.msg("comm_msg", content))


def _try(
    forks: Kernels, model: ScriptedModel, folder: Path, chosen: random.Random, seen: Counter[int]
) -> Iterator[str]:
    make_folders(folder, model)
    before = len(model.requests)
    process, client = forks.start(folder)
    page = Page(client)
    try:
        run_cell(client, "%load_ext vibe_jupyter")
        client.execute(PROMPT, allow_stdin=True)
        asked = chosen.randint(1, STEPS)
        while len(model.requests) < before + asked:
            page.hear_for(0.02)
        page.hear_for(chosen.uniform(0, LATEST))
        os.kill(process, signal.SIGKILL)
        page.hear_rest()
    finally:
        client.stop_channels()
    seen[len(page.ended)] += 1
    yield from _wrong_in(page)


def _wrong_in(page: Page) -> Iterator[str]:
    notebook = page.notebook()
    html, _ = HTMLExporter().from_notebook_node(notebook)
    shown = set(ENDED.findall(html))
    if lost := page.ended - shown:
        yield f"steps {sorted(lost)} of {sorted(page.ended)} are lost"
    if WIDGET in str(notebook) or "model not found" in html:
        yield "the notebook holds a widget that only a kernel can show"
