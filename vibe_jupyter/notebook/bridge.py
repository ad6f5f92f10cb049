"""Ask the page that shows this notebook: questions go out on iopub, answers come back on the control channel.

Both work while the main thread is busy. The forms of all messages are in `bridge_messages`; a front end without our
extension ignores the questions, and the answer is then missing.
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

PRESENCE_WAIT: Final = 1.0
"""Seconds in which a page says that it is there."""
KNOWN_WAIT: Final = 4.0
"""The same where one answered before, or where nothing is done without it: a page can be busy for seconds."""
MORE_PAGES_WAIT: Final = 0.150
"""Seconds, from the first answer on, in which other tabs and views may say so too."""
ALL_PAGES_WAIT: Final = 2.0
"""Seconds in which every open view of the notebook answers; nobody waits for it."""
PATIENCE: Final = 2.0
"""Seconds after which a silent page is asked whether it is still there."""
REQUEST_WAIT: Final = 10.0
"""Seconds that one answer may take."""
LATE_ANSWERS: Final = 64
"""Requests whose answer is heard also after that; the oldest is forgotten first."""

_NO_PAGE: Final = (
    "No page with the notebook extension answers: the notebook was closed, or is being loaded. Ask the user to open it."
)

OnAnswer = Callable[[Mapping[str, JsonValue] | None], None]
"""Takes the result; None where the page refused, or where there is none to ask."""


UNSENT: Final = "unsent"
"""In the data of an error: there was nobody to send the request to."""


class BridgeError(NotebookError):
    """The page refused, or did not answer."""

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
    """One request and the answers it got so far."""

    loop: asyncio.AbstractEventLoop
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    answers: "asyncio.Queue[Message]" = field(default_factory=lambda: asyncio.Queue[Message]())

    async def next(self, seconds: float) -> _Answer:
        """The next answer that can be read.

        Raises:
            TimeoutError: none came.
        """
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return _Answer.model_validate(await self.answers.get())
                except ValidationError:
                    continue  # from something that only looks like our extension


class Bridge:
    """The one way to the page of this kernel's notebook. Asked on the engine's loop."""

    def __init__(self, kernel: object, *, version: str, on_page: Callable[[str], None]) -> None:
        if not hasattr(kernel, "control_handlers"):
            raise NotebookError("This kernel has no control channel, so the page cannot answer. Update ipykernel.")
        self._kernel = cast(_Kernel, kernel)
        self._version = version
        self._on_page = on_page
        """Called with the client of a page that was loaded, from the thread of the control channel."""
        self.on_heard: Callable[[], None] | None = None
        """Called, from the same thread, whenever a page said something."""
        self._found: str | None = None
        """Id of the cell the run is in, where only a page could say it."""
        self._questions: dict[str, _Question] = {}
        self._hearers: OrderedDict[str, OnAnswer] = OrderedDict()
        """By the id of the request."""
        self._cell: Message = {}
        self._panel: NotebookPanel | None = None
        self._asked = False
        self._known = False
        """Whether a page ever answered."""
        self._edit_hearers: set[Callable[[], object]] = set()
        self._asking = asyncio.Lock()

    def install(self) -> None:
        """Hear what pages say; in the place of an earlier bridge if there is one."""
        self._kernel.control_handlers[REPLY] = self._on_reply
        self._kernel.control_handlers[EVENT] = self._on_event

    def uninstall(self) -> None:
        """Hear nothing any more."""
        handlers = self._kernel.control_handlers
        for name, ours in ((REPLY, self._on_reply), (EVENT, self._on_event)):
            if handlers.get(name) == ours:
                del handlers[name]

    def begin(self) -> None:
        """A run begins in the cell that runs now. Main thread."""
        cell = self._kernel.get_parent("shell")
        if cell is not self._cell:  # else the page that answered is still the one to ask
            self._cell, self._asked, self._panel, self._found = cell, False, None, None

    @property
    def prompt_cell(self) -> str | None:
        """Id of the cell the run is in; None where the front end sends none."""
        cell_id = self._cell.get("metadata", {}).get("cellId")
        return cell_id if isinstance(cell_id, str) else self._found

    async def find_prompt_cell(self, view: str) -> None:
        """Learn from a page which cell the run is in, by the live view in its output.

        Args:
            view: id of its model.

        Raises:
            BridgeError: as `request`.
        """
        if self.prompt_cell is None:
            cell, answer = self._cell, await self.request("find", model_id=view)
            found = answer.get("cell")
            if self._cell is cell and isinstance(found, str):
                self._found = found

    @property
    def known_panel(self) -> NotebookPanel | None:
        """The page that answered last in this run; None before one did."""
        return self._panel

    @property
    def has_answered(self) -> bool:
        """Whether a page ever answered."""
        return self._known

    @property
    def may_have_page(self) -> bool:
        """Whether one may answer: the cell came from JupyterLab or Notebook, which tell what they deleted."""
        return self._known or "deletedCells" in self._cell.get("metadata", {})

    async def panel(self, *, again: bool = False) -> NotebookPanel | None:
        """The page that answers in this run; None when there is none. Asked once, or `again` with more patience."""
        async with self._asking:
            if again or not self._asked:
                within = KNOWN_WAIT if again or self._known else PRESENCE_WAIT
                cell, found = self._cell, best_panel(await self._find_panels(within))
                if self._cell is not cell:
                    return found  # another run began, and asks for itself
                self._panel, self._asked = found, True
            return self._panel

    async def request(
        self, method: Method, *, on_answer: OnAnswer | None = None, **args: JsonValue
    ) -> dict[str, JsonValue]:
        """Ask the page of this run.

        Args:
            method: what is asked.
            on_answer: called once with the answer, from the thread of the control channel, also when nobody waits
                for it any more.
            args: of the method.

        Raises:
            BridgeError: it refused, there is none, or it answered too late; `code` says which.
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
        """Ask every open view of the notebook, or one; gives the answers that come within `ALL_PAGES_WAIT`."""
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
        """Return when a page says that cells were changed; it does so while a card waits."""
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
                    break  # there is no better one
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
        """On the thread of the control channel: pass it on, nothing else."""
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
            self._known, self._asked = True, False  # a page that was too busy to say so in time

    async def _on_event(self, _stream: object, _identities: object, message: Message) -> None:
        if self.on_heard is not None:
            self.on_heard()
        match message["content"].get("event"):
            case "hello":
                self._asked = False  # the page we knew may be gone
                self._on_page(str(message["content"].get("client", "")))
            case "edited":
                for hear in tuple(self._edit_hearers):
                    hear()
            case _:
                pass


def _result_of(content: Message) -> Mapping[str, JsonValue] | None:
    """The result in an answer; None where the page refused."""
    try:
        answer = _Answer.model_validate(content)
    except ValidationError:
        return {}
    return answer.result if answer.ok else None


def best_panel(panels: Iterable[NotebookPanel]) -> NotebookPanel | None:
    """The tab that ran the cell, else one that is on the screen, else the first; None of none."""
    return max(panels, key=lambda panel: (panel.ran, panel.visible), default=None)
