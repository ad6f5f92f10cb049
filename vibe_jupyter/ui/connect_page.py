"""The form that connects a model, as the page draws it: its messages, and the widget that carries them.

A key comes in messages of the page alone. The widget's state is its script, so no notebook keeps what was typed, and
what the form leaves in the output is one line of text.

The page's half of the messages is made from the types here, by ``scripts/contract_types.py``.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from typing import Annotated, Final, Literal, NotRequired, TypedDict

from IPython.display import (
    display,  # pyright: ignore[reportUnknownVariableType] (untyped)
    update_display,  # pyright: ignore[reportUnknownVariableType] (untyped)
)
from pydantic import Field, TypeAdapter, ValidationError

from vibe_jupyter.protocol.messages import Value
from vibe_jupyter.ui.page import RunWidget, bundle_of, discard_view, make_view, widget_class

CONNECT_FORM: Final = "connect-form.js"
ALIVE_WITHIN: Final = 3.0
"""Seconds a page has to draw the form before the questions are asked as text."""
TEXT_LIMIT: Final = 4_000
"""Characters of one field."""

Text = Annotated[str, Field(max_length=TEXT_LIMIT)]
FoundState = Literal["", "found", "not running", "key found"]


class FormAlive(Value):
    """A form was drawn and knows nothing yet."""

    type: Literal["alive"]


class ModelsWanted(Value):
    """List the models of a server."""

    type: Literal["models"]
    seq: int
    """Of the request; the answer has it too."""
    provider: Text
    api_base: Text
    key: Text


class ConnectWanted(Value):
    """Try what was chosen, and use it."""

    type: Literal["connect"]
    provider: Text
    api_base: Text
    key: Text
    model: Text
    place: Literal["keyring", "file", "session"]
    then: Literal["test", "save", "save_untested"]
    """What follows: nothing, or saving where the test went well, or saving without a test."""


class DemoWanted(Value):
    """Use the demo model."""

    type: Literal["demo"]


class FormCancelled(Value):
    """The user wants none of it."""

    type: Literal["cancel"]


FromForm = FormAlive | ModelsWanted | ConnectWanted | DemoWanted | FormCancelled
_FROM_FORM: TypeAdapter[FromForm] = TypeAdapter(Annotated[FromForm, Field(discriminator="type")])


class OfferedProvider(TypedDict):
    """One line of the list of providers."""

    id: str
    label: str
    api_base: str
    asks_key: bool
    key_from: str
    """Where its key is kept already; empty where none is."""
    key_page: str
    state: FoundState


class OfferedPlace(TypedDict):
    """A place for a key."""

    id: Literal["keyring", "file", "session"]
    label: str


class FormContents(TypedDict):
    """Everything the form offers."""

    type: Literal["form"]
    reason: str
    """Why it is shown; empty where the user asked for it."""
    runs_cell: bool
    """Whether the cell's prompt is sent once a model is connected."""
    chosen: str
    """Id of the provider to begin with."""
    providers: list[OfferedProvider]
    places: list[OfferedPlace]


class OfferedModel(TypedDict):
    """A model of the server."""

    name: str
    about: str


class ModelsListed(TypedDict):
    """What a server lists, or why it does not."""

    type: Literal["models"]
    seq: int
    models: list[OfferedModel]
    error: str


class StepTested(TypedDict):
    """What came of one question of the test."""

    type: Literal["tested"]
    name: str
    state: Literal["passed", "failed", "skipped"]
    detail: str
    seconds: float | None


class ConnectEnded(TypedDict):
    """The test is over, or something went wrong."""

    type: Literal["ended"]
    ok: bool
    error: NotRequired[str]
    """What is shown above the buttons."""


ToForm = FormContents | ModelsListed | StepTested | ConnectEnded


class FormPage:
    """One form. Opened and closed on the main thread; messages are handed over on the loop that calls `listen`."""

    def __init__(self, receive: Callable[[FromForm], None]) -> None:
        self._receive = receive
        self._display_id = secrets.token_hex(8)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._early: list[object] = []
        """What the page said before anybody listened."""
        self._view: RunWidget | None = None

    def open(self, words: str) -> None:
        """Show it; `words` stand where no widget is drawn. Main thread."""
        view = self._view = make_view(CONNECT_FORM)
        view.on_msg(self._take_message)
        bundle, metadata = bundle_of(view)
        display({**bundle, "text/plain": words}, metadata=metadata, raw=True, display_id=self._display_id)

    def listen(self) -> None:
        """Begin to hear the page. On the loop."""
        self._loop = asyncio.get_running_loop()
        early, self._early = self._early, []
        for content in early:
            self._hand_over(content)

    def tell(self, message: ToForm) -> None:
        """Send something. On the loop."""
        if self._view is not None:
            self._view.send(message)

    def close(self, words: str) -> None:
        """Leave one line in the place of the form. Main thread."""
        view, self._view = self._view, None
        if view is not None:
            view.on_msg(self._take_message, remove=True)
            update_display({"text/plain": words}, raw=True, display_id=self._display_id)
            discard_view(view)

    def _take_message(self, _view: object, content: object, _buffers: object) -> None:
        if self._loop is None:
            self._early.append(content)
            return
        with contextlib.suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._hand_over, content)

    def _hand_over(self, content: object) -> None:
        try:
            self._receive(_FROM_FORM.validate_python(content))
        except ValidationError:
            return  # not from our form


def can_show_form() -> bool:
    """Whether the kernel's side of the form is there."""
    try:
        widget_class(CONNECT_FORM)
    except (ImportError, FileNotFoundError):
        return False
    return True
