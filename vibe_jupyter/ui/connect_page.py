"""Widget and message types of the form for connecting a model.

The API key is only sent in messages from the page. The widget's state is just its script, so no notebook saves user
input, and the form leaves one line of text in the output.

``scripts/contract_types.py`` generates the page's TypeScript types from this module.
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
ALIVE_WITHIN: Final = 3.0  # seconds for a page to draw the form before the questions are asked as text
TEXT_LIMIT: Final = 4_000  # characters of one field

Text = Annotated[str, Field(max_length=TEXT_LIMIT)]
FoundState = Literal["", "found", "not running", "key found"]


class FormAlive(Value):
    """Sent when a page has drawn the form and needs its contents."""

    type: Literal["alive"]


class ModelsWanted(Value):
    """Request for the models of a server."""

    type: Literal["models"]
    seq: int
    """Sequence number, echoed in the response."""
    provider: Text
    api_base: Text
    key: Text


class ConnectWanted(Value):
    """Request to test and use the chosen settings."""

    type: Literal["connect"]
    provider: Text
    api_base: Text
    key: Text
    model: Text
    place: Literal["keyring", "file", "session"]
    then: Literal["test", "save", "save_untested"]
    """Test only, save if the test passes, or save without testing."""


class DemoWanted(Value):
    """Request to use the demo model."""

    type: Literal["demo"]


class FormCancelled(Value):
    """Sent when the user closes the form."""

    type: Literal["cancel"]


FromForm = FormAlive | ModelsWanted | ConnectWanted | DemoWanted | FormCancelled
_FROM_FORM: TypeAdapter[FromForm] = TypeAdapter(Annotated[FromForm, Field(discriminator="type")])


class OfferedProvider(TypedDict):
    """A provider in the form's list."""

    id: str
    label: str
    api_base: str
    asks_key: bool
    key_from: str
    """Where its key is already stored, or ""."""
    key_page: str
    state: FoundState


class OfferedPlace(TypedDict):
    """A location for storing a key."""

    id: Literal["keyring", "file", "session"]
    label: str


class FormContents(TypedDict):
    """Contents of the form."""

    type: Literal["form"]
    reason: str
    """Why the form is shown, or "" if the user asked for it."""
    runs_cell: bool
    """Whether the cell's prompt is sent once a model is connected."""
    chosen: str
    """Id of the provider selected initially."""
    providers: list[OfferedProvider]
    places: list[OfferedPlace]


class OfferedModel(TypedDict):
    """A model offered by the server."""

    name: str
    about: str


class ModelsListed(TypedDict):
    """Models of a server, or the error from listing them."""

    type: Literal["models"]
    seq: int
    models: list[OfferedModel]
    error: str


class StepTested(TypedDict):
    """Result of one check of the connection test."""

    type: Literal["tested"]
    name: str
    state: Literal["passed", "failed", "skipped"]
    detail: str
    seconds: float | None


class ConnectEnded(TypedDict):
    """End of the test, or an error."""

    type: Literal["ended"]
    ok: bool
    error: NotRequired[str]
    """Message shown above the buttons."""


ToForm = FormContents | ModelsListed | StepTested | ConnectEnded


class FormPage:
    """A displayed form. Open and close it on the main thread; messages arrive on the loop that calls `listen`."""

    def __init__(self, receive: Callable[[FromForm], None]) -> None:
        self._receive = receive
        self._display_id = secrets.token_hex(8)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._early: list[object] = []  # messages received before `listen`
        self._view: RunWidget | None = None

    def open(self, words: str) -> None:
        """Display the form, with `words` as its plain-text fallback. Main thread."""
        view = self._view = make_view(CONNECT_FORM)
        view.on_msg(self._take_message)
        bundle, metadata = bundle_of(view)
        display({**bundle, "text/plain": words}, metadata=metadata, raw=True, display_id=self._display_id)

    def listen(self) -> None:
        """Start delivering messages from the page. On the loop."""
        self._loop = asyncio.get_running_loop()
        early, self._early = self._early, []
        for content in early:
            self._hand_over(content)

    def tell(self, message: ToForm) -> None:
        """Send a message to the page. On the loop."""
        if self._view is not None:
            self._view.send(message)

    def close(self, words: str) -> None:
        """Replace the form with one line of text. Main thread."""
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
            return  # not a message of our form


def can_show_form() -> bool:
    """Return whether the form's widget can be created in this kernel."""
    try:
        widget_class(CONNECT_FORM)
    except (ImportError, FileNotFoundError):
        return False
    return True
