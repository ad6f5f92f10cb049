"""Requests to the page that shows this notebook, sent on iopub and answered on the control channel.

Both channels work while the main thread is busy. `bridge_messages` defines the messages. Front ends without our
extension ignore them, so a missing response means that there is no such page.
"""

import asyncio
import time
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

from pydantic import BaseModel, JsonValue, ValidationError

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.kernel.ipython_types import IPythonKernel, Message
from vibe_jupyter.notebook.bridge_messages import (
    EVENT,
    REPLY,
    REQUEST,
    Method,
    NotebookPanel,
    RefusalCode,
    ViewAddress,
    argument_names,
)

PRESENCE_WAIT: Final = 1.0  # seconds for a page to respond to the first request
# Seconds if a page has responded before, or if there is no fallback: pages may be busy for seconds.
KNOWN_WAIT: Final = 4.0
MORE_PAGES_WAIT: Final = 0.150  # seconds after the first response to wait for other tabs and views
ALL_PAGES_WAIT: Final = 2.0  # seconds to collect responses of every open view; nothing blocks on it
PATIENCE: Final = 2.0  # seconds before checking whether a silent page still exists
REQUEST_WAIT: Final = 10.0  # seconds before a request times out
LATE_ANSWERS: Final = 64  # requests whose late responses are still handled; the oldest are dropped first

_NO_PAGE: Final = (
    "No page with the notebook extension answers: the notebook was closed, or is being loaded. Ask the user to open it."
)

# Handles the result; None if the page refused or there is no page.
OnAnswer = Callable[[Mapping[str, JsonValue] | None], None]


UNSENT: Final = "unsent"  # key in an error's data: the request was never sent


class BridgeError(NotebookError):
    """Error for a request that the page refused or didn't answer."""

    def __init__(self, message: str, *, code: RefusalCode, data: dict[str, JsonValue] | None = None) -> None:
        super().__init__(message)
        self.code: RefusalCode = code
        self.data = data or {}


class _Refusal(BaseModel):
    code: RefusalCode = "bad_request"
    message: str = ""
    data: dict[str, JsonValue] = {}


class _Answer(BaseModel):
    client: str
    panel: str
    ok: bool
    result: dict[str, JsonValue] = {}
    error: _Refusal = _Refusal()


class _Kernel(IPythonKernel, Protocol):
    control_handlers: MutableMapping[str, Callable[..., Awaitable[None]]]


@dataclass(eq=False)
class _Question:
    """A request and its responses so far."""

    loop: asyncio.AbstractEventLoop
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    answers: "asyncio.Queue[Message]" = field(default_factory=lambda: asyncio.Queue[Message]())

    async def next(self, seconds: float) -> _Answer:
        """Return the next valid response.

        Raises:
            TimeoutError: None arrived in time.
        """
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return _Answer.model_validate(await self.answers.get())
                except ValidationError:
                    continue  # from something that isn't our extension


class Bridge:
    """Connection to the page of this kernel's notebook. Requests are made on the engine's loop."""

    def __init__(self, kernel: object, *, version: str, on_page: Callable[[str], None]) -> None:
        if not hasattr(kernel, "control_handlers"):
            raise NotebookError("This kernel has no control channel, so the page cannot answer. Update ipykernel.")
        self._kernel = cast(_Kernel, kernel)
        self._version = version
        self._on_page = on_page  # called with the client id of a newly loaded page, on the control channel's thread
        self.on_heard: Callable[[], None] | None = None  # called for every message from a page, on the same thread
        self._found: str | None = None  # id of the cell the run is in, if only a page could tell
        self._questions: dict[str, _Question] = {}
        self._hearers: OrderedDict[str, OnAnswer] = OrderedDict()  # by request id
        self._cell: Message = {}
        self._panel: NotebookPanel | None = None
        self._asked = False
        self._known = False  # True once a page has responded
        self._edit_hearers: set[Callable[[], object]] = set()
        self._asking = asyncio.Lock()

    def install(self) -> None:
        """Register the message handlers, replacing those of an earlier bridge."""
        self._kernel.control_handlers[REPLY] = self._on_reply
        self._kernel.control_handlers[EVENT] = self._on_event

    def uninstall(self) -> None:
        """Unregister the message handlers."""
        handlers = self._kernel.control_handlers
        for name, ours in ((REPLY, self._on_reply), (EVENT, self._on_event)):
            if handlers.get(name) == ours:
                del handlers[name]

    def begin(self) -> None:
        """Start a run in the running cell. Main thread."""
        cell = self._kernel.get_parent("shell")
        if cell is not self._cell:  # for the same cell, the page found before is still valid
            self._cell, self._asked, self._panel, self._found = cell, False, None, None

    @property
    def prompt_cell(self) -> str | None:
        """Id of the cell the run is in, or None if unknown."""
        cell_id = self._cell.get("metadata", {}).get("cellId")
        return cell_id if isinstance(cell_id, str) else self._found

    async def find_prompt_cell(self, view: str) -> None:
        """Ask the page which cell the run is in, identified by the live view in its output.

        Args:
            view: Model id of the view.

        Raises:
            BridgeError: As for `request`.
        """
        if self.prompt_cell is None:
            cell, answer = self._cell, await self.request("find", model_id=view)
            found = answer.get("cell")
            if self._cell is cell and isinstance(found, str):
                self._found = found

    @property
    def known_panel(self) -> NotebookPanel | None:
        """The page that last responded in this run, or None."""
        return self._panel

    @property
    def has_answered(self) -> bool:
        """True once any page has responded."""
        return self._known

    @property
    def may_have_page(self) -> bool:
        """True if a page may respond: one did before, or JupyterLab or Notebook sent the cell (with `deletedCells`)."""
        return self._known or "deletedCells" in self._cell.get("metadata", {})

    async def panel(self, *, again: bool = False) -> NotebookPanel | None:
        """Return the page of this run, or None. Looked up once; `again` repeats it with a longer timeout."""
        async with self._asking:
            if again or not self._asked:
                within = KNOWN_WAIT if again or self._known else PRESENCE_WAIT
                cell, found = self._cell, best_panel(await self._find_panels(within))
                if self._cell is not cell:
                    return found  # another run has started and looks up its own page
                self._panel, self._asked = found, True
            return self._panel

    async def request(
        self, method: Method, *, on_answer: OnAnswer | None = None, **args: JsonValue
    ) -> dict[str, JsonValue]:
        """Send a request to the page of this run.

        Args:
            method: The method.
            on_answer: Called once with the response on the control channel's thread, even if it arrives after the
                timeout.
            args: Arguments of the method.

        Raises:
            BridgeError: The page refused, there is none, or the request timed out; see `code`.
        """
        assert argument_names(method).issuperset(args)
        panel = await self.panel()
        if panel is None:
            if on_answer is not None:
                on_answer(None)
            raise BridgeError(_NO_PAGE, code="closed", data={UNSENT: True})
        with self._open_question() as question:
            if on_answer is not None:
                self._hear_also_late(question.id, on_answer)
            self._send_request(question.id, method, panel.address, args)
            answer = await self._answer_of(question, panel)
        if not answer.ok:
            raise BridgeError(answer.error.message or answer.error.code, code=answer.error.code, data=answer.error.data)
        return answer.result

    async def ask_all(
        self, method: Method, to: ViewAddress | None = None, **args: JsonValue
    ) -> list[tuple[ViewAddress, dict[str, JsonValue]]]:
        """Send a request to every open view of the notebook, or one, and return responses within `ALL_PAGES_WAIT`."""
        assert argument_names(method).issuperset(args)
        answers: list[tuple[ViewAddress, dict[str, JsonValue]]] = []
        with self._open_question() as question:
            self._send_request(question.id, method, to, args)
            end = time.monotonic() + ALL_PAGES_WAIT
            with suppress(TimeoutError):
                while True:
                    answer = await question.next(end - time.monotonic())
                    if answer.ok:
                        answers.append((ViewAddress(client=answer.client, panel=answer.panel), answer.result))
                    if to is not None:
                        break
        return answers

    async def wait_for_edit(self) -> None:
        """Wait until a page reports that cells were changed. Pages do so while a card is open."""
        edited, loop = asyncio.Event(), asyncio.get_running_loop()

        def hear() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(edited.set)

        self._edit_hearers.add(hear)
        try:
            await edited.wait()
        finally:
            self._edit_hearers.discard(hear)

    def _hear_also_late(self, request: str, on_answer: OnAnswer) -> None:
        self._hearers[request] = on_answer
        if len(self._hearers) > LATE_ANSWERS:
            self._hearers.popitem(last=False)

    async def _answer_of(self, question: _Question, panel: NotebookPanel) -> _Answer:
        deadline = time.monotonic() + REQUEST_WAIT
        try:
            return await question.next(PATIENCE)
        except TimeoutError:
            here = await self.panel(again=True)
        if here is None or here.address != panel.address:
            what = "was closed" if here is None else "was reloaded"
            raise BridgeError(f"The notebook's page {what} before it answered.", code="closed")
        try:
            return await question.next(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise BridgeError(
                f"The notebook's page did not answer within {REQUEST_WAIT:g} s.", code="not_finished"
            ) from None

    async def _find_panels(self, within: float) -> list[NotebookPanel]:
        panels: list[NotebookPanel] = []
        with self._open_question() as question:
            self._send_request(question.id, "hello", None, {"version": self._version})
            end = time.monotonic() + within
            while (left := end - time.monotonic()) > 0:
                try:
                    answer = await question.next(left)
                    panel = NotebookPanel.of(answer.client, answer.panel, answer.result)
                except TimeoutError:
                    break
                except ValidationError:
                    continue
                if not panels:
                    end = min(end, time.monotonic() + MORE_PAGES_WAIT)
                panels.append(panel)
                self._known = True
                if panel.ran and panel.visible:
                    break  # no other page can be better
        return panels

    @contextmanager
    def _open_question(self) -> Generator[_Question]:
        question = _Question(asyncio.get_running_loop())
        self._questions[question.id] = question
        try:
            yield question
        finally:
            del self._questions[question.id]

    def _send_request(self, number: str, method: Method, to: ViewAddress | None, args: dict[str, JsonValue]) -> None:
        kernel = self._kernel
        content = {"id": number, "method": method, "to": to.model_dump() if to else None, "args": args}
        topic = f"kernel.{kernel.ident}.{REQUEST}".encode()
        kernel.session.send(kernel.iopub_socket, REQUEST, content, parent=self._cell, ident=topic)

    async def _on_reply(self, _stream: object, _identities: object, message: Message) -> None:
        """Pass a response on. Runs on the control channel's thread, so it must not do more."""
        if self.on_heard is not None:
            self.on_heard()
        content = message["content"]
        hear = self._hearers.pop(str(content.get("id")), None)
        if hear is not None:
            hear(_result_of(content))
        question = self._questions.get(str(content.get("id")))
        if question is not None and not question.loop.is_closed():
            question.loop.call_soon_threadsafe(question.answers.put_nowait, content)
        elif self._panel is None:
            self._known, self._asked = True, False  # a page that was too busy to respond in time

    async def _on_event(self, _stream: object, _identities: object, message: Message) -> None:
        if self.on_heard is not None:
            self.on_heard()
        match message["content"].get("event"):
            case "hello":
                self._asked = False  # the known page may be gone
                self._on_page(str(message["content"].get("client", "")))
            case "edited":
                for hear in tuple(self._edit_hearers):
                    hear()
            case _:
                pass


def _result_of(content: Message) -> Mapping[str, JsonValue] | None:
    """Return the result in a response, or None if the page refused."""
    try:
        answer = _Answer.model_validate(content)
    except ValidationError:
        return {}
    return answer.result if answer.ok else None


def best_panel(panels: Iterable[NotebookPanel]) -> NotebookPanel | None:
    """Return the tab that ran the cell, else a visible one, else the first; None if there are none."""
    return max(panels, key=lambda panel: (panel.ran, panel.visible), default=None)
