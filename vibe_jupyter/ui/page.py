"""The line between one run and the page that shows it: the widget, messages out at a bounded rate, messages in.

The transcript makes parts; every user interface only shows them. HTML in a part is made by
`vibe_jupyter.ui.markdown_html` and its like and nowhere else, so that a view may insert it as it is.

The page's half of the messages is made from the types here, by ``scripts/contract_types.py``.

Its state is the script and the style and nothing else, so a saved notebook keeps neither code nor answers in it.
ipywidgets and anywidget are imported when the first view is made, not with this module.
"""

import asyncio
import contextlib
import functools
import importlib
import math
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol, Required, TypedDict, cast

from pydantic import Field, TypeAdapter, ValidationError

from vibe_jupyter.protocol import Command, DecidedBy, MimeBundle
from vibe_jupyter.protocol.messages import Value
from vibe_jupyter.safe_imports import without_collections, without_working_folder
from vibe_jupyter.ui.front_end import REST, Handled
from vibe_jupyter.ui.markup import Markup
from vibe_jupyter.ui.run_output import KeptPiece, RunOutput

FOOT = "foot"
"""The id of the last part."""

PartKind = Literal["prose", "tail", "step", "card", "notice", "error", "foot"]

PATCH_GAP = 0.1
"""Seconds between two messages of patches: each costs 640 bytes of envelope, and a page that is a tenth of a second
behind is not noticed."""
LITTLE_GAP = 0.17
"""The same while a slow model adds a few words at a time."""
END_WITHIN = 0.3
"""Seconds after its answer in which a run mostly ends: until then the document need not be renewed, which costs as much
as the whole text."""
HOLD_RATE = 1_000_000
"""Characters a second of which the document is renewed at most, while a run goes on."""

STATIC = Path(__file__).parent / "static"
"""Where the build of ``labextension/`` leaves its bundle."""
RUN_VIEW = "run-view.js"
NO_SCRIPT = "export default {}"
"""The least module that a page takes without complaint."""

UNSEEN_LIMIT: Final = 3
"""Views of runs that ended before a page drew them that stay open: what the page says of them may be on its way, and of
closed ones the kernel would complain in the output of the next cell."""
unseen: Final[deque["RunWidget"]] = deque()
"""The last of them, the oldest first."""

Receive = Callable[[object, object, object], None]
"""Takes widget, content and buffers of a message from the page."""

FEW = 400
"""Characters of added text up to which a message would be mostly envelope."""


@dataclass(frozen=True, slots=True)
class ViewPart:
    """One block of the view. Order in the transcript is order on the page; `foot` is always the last."""

    id: str
    """Unique in its run and stable: ``t3`` for a piece of prose, ``s5`` for a step, ``foot``."""
    kind: PartKind
    html: str
    """Safe HTML for the live view (classes of ours, no inline style); of kind tail the end of an answer that grows."""


class ViewPatch(TypedDict, total=False):
    """One change of the view, as sent to the page.

    ``{"id", "kind", "html", "before"}`` puts or replaces a part, ``before`` naming the part it goes in front of
    (absent: in front of the foot); with ``keep`` the HTML goes behind so many UTF-16 units of what the part had.
    ``{"id", "remove": true}`` removes.
    """

    id: Required[str]
    kind: PartKind
    html: str
    keep: int
    before: str
    remove: bool


class ViewSnapshot(TypedDict):
    """Everything that is shown now."""

    type: Literal["snapshot"]
    parts: list[ViewPart]


class ViewPatches(TypedDict):
    """What changed since the message before."""

    type: Literal["patches"]
    seq: int
    patches: list[ViewPatch]


class ViewOver(TypedDict):
    """The run has ended, with these words; the kept form takes the place of the view."""

    type: Literal["over"]
    words: str


MakePieces = Callable[[], Sequence[KeptPiece]]
ToPage = ViewSnapshot | ViewPatches | ViewOver


class PartList:
    """Parts in the order of the page. Every change is also a patch, until `take_patches`."""

    def __init__(self) -> None:
        self._parts: dict[str, ViewPart] = {}
        self._patches: list[ViewPatch] = []
        self._numbers = 0

    def new_id(self, prefix: str) -> str:
        """An id no part had."""
        self._numbers += 1
        return f"{prefix}{self._numbers}"

    def put(self, part_id: str, kind: PartKind, html: Markup, before: str | None = None) -> None:
        """Show a part: in its old place if it has one, else in front of the part `before`, or as the last before the
        foot."""
        part = ViewPart(part_id, kind, html)
        if self._parts.get(part_id) == part:
            return
        patch: ViewPatch = {"id": part_id, "kind": kind, "html": html}
        if before in self._parts and part_id not in self._parts:
            patch["before"] = before
            ids = list(self._parts)
            later = {one: self._parts.pop(one) for one in ids[ids.index(before) :]}
            self._parts |= {part_id: part, **later}
        self._parts[part_id] = part
        self._patches.append(patch)

    def remove(self, part_id: str) -> None:
        """Take a part away; one that is not there stays away."""
        if self._parts.pop(part_id, None) is not None:
            self._patches.append({"id": part_id, "remove": True})

    def take_patches(self) -> list[ViewPatch]:
        """The changes since the last call."""
        patches, self._patches = self._patches, []
        return patches

    def parts(self) -> list[ViewPart]:
        """Everything that is shown now."""
        shown = [part for part in self._parts.values() if part.id != FOOT]
        return shown + [part for part in self._parts.values() if part.id == FOOT]


class ViewLoaded(Value):
    """A page has loaded the view, and looks for the output to draw it over."""

    type: Literal["loaded"]


class ViewAlive(Value):
    """A view was drawn and knows nothing yet."""

    type: Literal["alive"]


class ViewGone(Value):
    """The output that the view was drawn over is no more: the user cleared it."""

    type: Literal["gone"]


class ViewDecision(Value):
    """The user pressed something."""

    type: Literal["command"]
    command: Command


FromPage = ViewLoaded | ViewAlive | ViewGone | ViewDecision
_FROM_PAGE: TypeAdapter[FromPage] = TypeAdapter(Annotated[FromPage, Field(discriminator="type")])


@dataclass(frozen=True)
class ShownView:
    """By which a view is known to the page."""

    model_id: str
    display_id: str
    more: tuple[str, ...] = ()
    """By which the page knows the pieces of the output below the first."""


class RunWidget(Protocol):
    """What we use of an anywidget."""

    layout: "RunWidget"
    _esm: str
    model_id: str

    def send(self, content: object) -> None: ...
    def on_msg(self, callback: Receive, remove: bool = False) -> None: ...
    def close(self) -> None: ...
    def _repr_mimebundle_(self) -> tuple[dict[str, Any], dict[str, Any]]: ...


class PageChannel:
    """Opened, replaced and closed on the main thread; attached to the engine loop, which does all sending.

    Messages of the page come on the main thread or in a subshell, and are only put into a queue there.
    """

    def __init__(self, receive: Callable[[FromPage, DecidedBy], None], handled: Handled) -> None:
        self.receive = receive
        """Hears what the page says. On the loop."""
        self._handled = handled
        self._view: RunWidget | None = None
        self.output: RunOutput | None = None
        """Where the view stands; None before it is open and after its end."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inbox: deque[tuple[object, DecidedBy]] = deque()
        self._outbox = PatchOutbox()
        self._messages = 0
        self._sent_at = float("-inf")
        self._make_held: MakePieces | None = None
        """Makes what the document is to hold next; None while it holds the latest."""
        self._hold_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    @property
    def shown(self) -> "ShownView | None":
        """What a reloaded page needs to draw the live view again; None before it is open."""
        if self._view is None or self.output is None:
            return None
        return ShownView(self._view.model_id, self.output.display_id, self.output.marks[1:])

    def open(self, held: MimeBundle) -> None:
        """Put an empty view into the output, over what the document holds. Main thread."""
        self._view = make_view()
        self._view.on_msg(self._take_message)
        self.output = RunOutput(self._view.model_id)
        self.output.put(held)

    def move_here(self) -> None:
        """Show the view in the output of the cell that runs now, and nowhere else. Main thread."""
        if self.output is not None:
            self.output.move_here()

    def offer_widget(self) -> None:
        """Have a page draw the view that loads no widget before it is shown one. From any thread."""
        if self._view is not None and self.output is not None:
            self.output.offer_widget(bundle_of(self._view)[0])

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to hand over what the page says. On the loop."""
        if self._loop is None:
            self._loop = loop
            self._drain_messages()

    def show(self, parts: Iterable[ViewPart]) -> None:
        """Tell every view the whole; what waits is part of it. On the loop."""
        self.drop()
        shown = list(parts)
        self._outbox.note_snapshot(shown)
        self._tell_page(cast("ViewSnapshot", {"type": "snapshot", "parts": [asdict(part) for part in shown]}))

    def patch(self, patches: Iterable[ViewPatch], hold: MakePieces | None = None, *, rests: bool = False) -> None:
        """Send these with the next message: at once after a pause, else when the gap is over. On the loop.

        Args:
            patches: to what the page shows.
            hold: makes what the document is to hold before the page hears of them; None for no change.
            rests: as `hold`.
        """
        if hold is not None:
            if rests:
                self._hold_at = max(self._hold_at, asyncio.get_running_loop().time() + END_WITHIN)
            self._make_held = hold
        self._outbox.add(patches)
        self._send_when_due()

    def hold(self, make: MakePieces, *, rests: bool = False) -> None:
        """Have the document hold this before the page hears more. On the loop.

        Args:
            make: gives what it is to hold.
            rests: whether the run is about to end, which leaves the same in its place: then this may wait a little.
        """
        self.patch((), make, rests=rests)

    def drop(self) -> None:
        """Forget what waits. On the loop."""
        self._outbox.take()
        self._make_held = None
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(
        self,
        kept: Sequence[MimeBundle],
        words: str = "",
        metadata: Mapping[str, Any] | None = None,
        *,
        is_drawn: bool = True,
    ) -> None:
        """Put the kept form, a piece in each output, in the place of the view. Main thread.

        Args:
            kept: the pieces.
            words: how the run ended.
            metadata: of each output.
            is_drawn: whether a page said that it draws the view; one that did not may say so yet.
        """
        view, self._view = self._view, None
        output, self.output = self.output, None  # what still waits to be held is not
        if view is not None and output is not None:
            if words:
                self._tell_page({"type": "over", "words": words}, view)
            view.on_msg(self._take_message, remove=True)
            output.leave(kept, metadata)
            if is_drawn:
                discard_view(view)
            else:
                strip(view)
                unseen.append(view)
                if len(unseen) > UNSEEN_LIMIT:
                    discard_view(unseen.popleft())

    def _send_when_due(self) -> None:
        box = self._outbox
        due = self._sent_at + (LITTLE_GAP if box.added <= FEW else PATCH_GAP) if box.waiting else math.inf
        if self._make_held is not None:
            due = min(due, max(self._sent_at + PATCH_GAP, self._hold_at))
        loop = asyncio.get_running_loop()
        if due <= loop.time():
            self._send_waiting()
        elif due < math.inf and (self._timer is None or due < self._timer.when()):
            self._stop_timer()
            self._timer = loop.call_at(due, self._send_waiting)

    def _send_waiting(self) -> None:
        """What the document is to hold, then the patches: nobody sees what would be lost with the kernel."""
        self._stop_timer()
        now = self._sent_at = asyncio.get_running_loop().time()
        if self._make_held is not None and self._hold_at <= now:
            self._hold_latest(self._make_held)
        if self._outbox.waiting:
            self._messages += 1
            self._tell_page({"type": "patches", "seq": self._messages, "patches": self._outbox.take()})
        self._send_when_due()

    def _hold_latest(self, make: MakePieces) -> None:
        self._make_held = None
        if self.output is None:
            return
        loop, began = asyncio.get_running_loop(), self._sent_at
        held = make()
        self.output.hold(held)
        if self._outbox.waiting:
            self._sent_at += PATCH_GAP  # two messages are sent, so the next comes after two gaps
        took = loop.time() - began
        self._hold_at = loop.time() + max(
            REST * took, sum(len(str(piece.bundle.get("text/html"))) for piece in held) / HOLD_RATE
        )

    def _tell_page(self, message: ToPage, view: RunWidget | None = None) -> None:
        if (view := view or self._view) is not None:
            view.send(message)

    def _take_message(self, _view: object, content: object, _buffers: object) -> None:
        """Queue a message, in whichever thread it came."""
        self._inbox.append((content, "person" if self._is_carried(content) else "code"))
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._drain_messages)

    def _drain_messages(self) -> None:
        while self._inbox:
            content, by = self._inbox.popleft()
            try:
                message = _FROM_PAGE.validate_python(content)
            except ValidationError:
                continue  # not from our page
            self.receive(message, by)

    def _is_carried(self, content: object) -> bool:
        """Whether the message that this thread handles now carries exactly this to our view: else code called it."""
        view, message = self._view, self._handled()
        if view is None or message is None:
            return False
        try:
            body = message["content"]
            carried = (message["header"]["msg_type"], body["comm_id"], body["data"]["method"], body["data"]["content"])
        except (KeyError, TypeError):
            return False
        return carried == ("comm_msg", view.model_id, "custom", content)


def can_show() -> bool:
    """Whether the kernel's side of the view is there: the widget packages and the bundle."""
    try:
        widget_class(RUN_VIEW)
    except (ImportError, FileNotFoundError):
        return False
    return True


def make_view(bundle: str = RUN_VIEW) -> RunWidget:
    """Make a widget, which is not shown yet. Main thread.

    Args:
        bundle: what draws it, by its name in `STATIC`.
    """
    view_id = secrets.token_hex(16)
    return widget_class(bundle)(model_id=view_id, view_id=view_id)


def bundle_of(view: RunWidget) -> tuple[dict[str, Any], dict[str, Any]]:
    """MIME bundle and metadata that make the front end draw the view."""
    return view._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]  # IPython's own protocol


def discard_view(view: RunWidget) -> None:
    """Close the view and the layout every widget carries, so that ipywidgets keeps neither. Main thread."""
    layout = view.layout
    view.close()
    layout.close()


def strip(view: RunWidget) -> None:
    """Take the script out of the state of a view that nobody drew: programs that run notebooks save that state.

    What is left is a module that draws nothing, since a page may have drawn the view and not yet said so.
    """
    view._esm = NO_SCRIPT  # pyright: ignore[reportPrivateUsage]  # so named by anywidget


@functools.cache
def widget_class(bundle: str) -> Callable[..., RunWidget]:
    """What makes widgets that a bundle draws.

    Args:
        bundle: its name in `STATIC`.

    Raises:
        ImportError: the widget packages are not installed.
        FileNotFoundError: the bundle was not built.
    """
    with without_working_folder(), without_collections():
        base: Any = importlib.import_module("anywidget").AnyWidget
    unicode: Any = importlib.import_module("traitlets").Unicode
    name = "".join(word.capitalize() for word in Path(bundle).stem.split("-"))
    members = {
        "__module__": __name__,
        "view_id": unicode().tag(sync=True),
        "_esm": (STATIC / bundle).read_text("utf-8"),
    }
    return cast("Callable[..., RunWidget]", type(name, (base,), members))


class PatchOutbox:
    """Keeps the order of changes; a part put twice is put once, and of a text that grows only what is new is sent."""

    def __init__(self) -> None:
        self.waiting: list[ViewPatch] = []
        """In order."""
        self._last: dict[str, int] = {}
        """Place of the last waiting patch of a part."""
        self._told: dict[str, str] = {}
        """The HTML of each growing text, as the page has it."""
        self.added = 0
        """Characters of the waiting text; more than `FEW` when a step, a card or the like waits too."""

    def add(self, patches: Iterable[ViewPatch]) -> None:
        """Let these wait behind the others."""
        for patch in patches:
            self._add_patch(patch)

    def take(self) -> list[ViewPatch]:
        """Everything that waits, in order; nothing waits afterwards."""
        taken = [self._shortened(patch) for patch in self.waiting]
        self.waiting, self._last, self.added = [], {}, 0
        return taken

    def note_snapshot(self, parts: Iterable[ViewPart]) -> None:
        """The page gets these parts."""
        self._told = {part.id: part.html for part in parts if part.kind == "tail"}

    def _add_patch(self, patch: ViewPatch) -> None:
        place = self._last.get(patch["id"])
        waiting = self.waiting[place] if place is not None else None
        had = (waiting or {}).get("html", self._told.get(patch["id"], ""))
        is_of_answer = patch.get("kind") in ("prose", "tail")
        self.added += max(0, len(patch.get("html", "")) - len(had)) if is_of_answer else FEW + 1
        if waiting is not None and "html" in waiting and "html" in patch and "before" not in patch:
            waiting.update(patch)
        else:
            self.waiting.append(patch.copy())
            self._last[patch["id"]] = len(self.waiting) - 1

    def _shortened(self, patch: ViewPatch) -> ViewPatch:
        """The same, with the part of the HTML alone that the page does not have."""
        had, html = self._told.pop(patch["id"], ""), patch.get("html", "")
        if patch.get("kind") == "tail":
            self._told[patch["id"]] = html
        same = _common_length(had, html)
        return {**patch, "html": html[same:], "keep": _utf16_length(html[:same])} if same else patch


def _common_length(one: str, other: str) -> int:
    """How many characters they have in common at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
