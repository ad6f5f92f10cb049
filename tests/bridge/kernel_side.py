"""Imported in the kernel under test: asks the front end over the bridge with a few lines of its own."""

import json
import queue
import time
import uuid
from collections.abc import Callable
from typing import Any

from IPython import get_ipython

PATIENCE = 5.0
"""Seconds an answer may take."""
MORE = 0.4
"""Seconds in which further panels may answer."""


class Asker:
    """Sends on iopub; hears on the thread of the control channel."""

    def __init__(self) -> None:
        self.kernel: Any = get_ipython().kernel  # type: ignore[union-attr]
        self.answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self.events: list[dict[str, Any]] = []
        self.kernel.control_handlers["vibe_bridge_reply"] = self._reply
        self.kernel.control_handlers["vibe_bridge_event"] = self._event

    async def _reply(self, _stream: object, _ident: object, message: dict[str, Any]) -> None:
        self.answers.put(message["content"])

    async def _event(self, _stream: object, _ident: object, message: dict[str, Any]) -> None:
        self.events.append(message["content"])

    def send(self, method: str, args: dict[str, Any], to: object = None) -> str:
        number = uuid.uuid4().hex
        content = {"id": number, "method": method, "to": to, "args": args}
        kernel = self.kernel
        kernel.session.send(kernel.iopub_socket, "vibe_bridge", content, parent=kernel.get_parent(), ident=b"vibe")
        return number

    def ask(self, method: str, args: dict[str, Any], to: object = None) -> dict[str, Any]:
        """The answer; fails loudly when there is none."""
        number = self.send(method, args, to)
        end = time.monotonic() + PATIENCE
        while True:
            answer = self.answers.get(timeout=max(0.01, end - time.monotonic()))
            if answer["id"] == number:
                return answer

    def everyone(self) -> list[dict[str, Any]]:
        """Every panel's hello."""
        number = self.send("hello", {})
        found: list[dict[str, Any]] = []
        end = time.monotonic() + PATIENCE
        while (left := end - time.monotonic()) > 0:
            try:
                answer = self.answers.get(timeout=left)
            except queue.Empty:
                break
            if answer["id"] == number:
                found.append(answer["result"])
                end = min(end, time.monotonic() + MORE)
        return found


asker = Asker()


def play(steps: str) -> None:
    """Ask one thing after another, and print the answers as one line of JSON."""
    hello = asker.ask("hello", {})["result"]
    to = {"client": hello["client"], "panel": hello["panel"]}
    answers = [asker.ask(method, args, to) for method, args in json.loads(steps)]
    print(json.dumps(answers))


def wait_for_event(name: str, serve: "Callable[[float], None]" = time.sleep) -> dict[str, Any]:
    """The event of this name, once a page told it."""
    end = time.monotonic() + 4 * PATIENCE
    while time.monotonic() < end:
        for event in asker.events:
            if event["event"] == name:
                return event
        serve(0.02)
    raise TimeoutError(f"no event {name}; there were {asker.events}")
