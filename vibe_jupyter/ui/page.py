"""Channel between a run and the page that displays it: the widget, rate-limited patches out, messages in.

The transcript makes the parts; user interfaces only display them. HTML in a part is only made by
`vibe_jupyter.ui.markdown_html` and similar modules, so that a view may insert it unchanged.

``scripts/contract_types.py`` generates the page's TypeScript types from this module.

The widget's state is just script and style, so a saved notebook contains no code or answers in it. ipywidgets and
anywidget are imported when the first view is made, not with this module.
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

FOOT = "foot"  # id of the last part

PartKind = Literal["prose", "tail", "step", "card", "notice", "error", "foot"]

PATCH_GAP = 0.1  # seconds between patch messages; each has 640 bytes of envelope, and a delay of 0.1 s isn't noticed
LITTLE_GAP = 0.17  # the same while a slow model adds a few words at a time
# Most runs end within this many seconds after an answer. Until then the document isn't updated, since each update sends
# the whole text: 40 % of streams sent it once more than necessary.
END_WITHIN = 0.3
HOLD_RATE = 1_000_000  # characters per second; limits document updates during a run

STATIC = Path(__file__).parent / "static"  # output directory of the ``labextension/`` build
RUN_VIEW = "run-view.js"
NO_SCRIPT = "export default {}"  # the smallest module that pages load without an error

# Runs that ended before a page drew their view leave it open, up to this many. A page's messages may still be on their
# way, and for a closed view the kernel would print an error into the next cell's output.
UNSEEN_LIMIT: Final = 3
unseen: Final[deque["RunWidget"]] = deque()  # oldest first

Receive = Callable[[object, object, object], None]  # handles widget, content and buffers of a message from the page

FEW = 400  # characters; with less added text, a message would be mostly envelope


@dataclass(frozen=True, slots=True)
class ViewPart:
    """A block of the view. Parts have the order of the transcript; `foot` is always last."""

    id: str
    """Stable and unique within the run: ``t3`` for text, ``s5`` for a step, ``foot``."""
    kind: PartKind
    html: str
    """Safe HTML for the live view (our classes, no inline styles). For kind tail: the growing end of an answer."""


class ViewPatch(TypedDict, total=False):
    """A change to the view, as sent to the page.

    ``{"id", "kind", "html", "before"}`` adds or replaces a part, in front of the part ``before`` (default: the foot).
    With ``keep``, the HTML is appended to that many UTF-16 code units of the part's previous HTML. With ``remove``, the
    part is removed.
    """

    id: Required[str]
    kind: PartKind
    html: str
    keep: int
    before: str
    remove: bool


class ViewSnapshot(TypedDict):
    """All parts of the view."""

    type: Literal["snapshot"]
    parts: list[ViewPart]


class ViewPatches(TypedDict):
    """Changes since the previous message."""

    type: Literal["patches"]
    seq: int
    patches: list[ViewPatch]


class ViewOver(TypedDict):
    """End of the run. The static output replaces the view, and `words` describe how the run ended."""

    type: Literal["over"]
    words: str


MakePieces = Callable[[], Sequence[KeptPiece]]
ToPage = ViewSnapshot | ViewPatches | ViewOver


class PartList:
    """Ordered parts of the view. Records a patch for every change until `take_patches`."""

    def __init__(self) -> None:
        self._parts: dict[str, ViewPart] = {}
        self._patches: list[ViewPatch] = []
        self._numbers = 0

    def new_id(self, prefix: str) -> str:
        """Return an unused part id."""
        self._numbers += 1
        return f"{prefix}{self._numbers}"

    def put(self, part_id: str, kind: PartKind, html: Markup, before: str | None = None) -> None:
        """Add or update a part. A new part goes in front of the part `before`, or at the end, before the foot."""
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
        """Remove a part if it exists."""
        if self._parts.pop(part_id, None) is not None:
            self._patches.append({"id": part_id, "remove": True})

    def take_patches(self) -> list[ViewPatch]:
        """Return and clear the recorded patches."""
        patches, self._patches = self._patches, []
        return patches

    def parts(self) -> list[ViewPart]:
        """Return all parts in display order."""
        shown = [part for part in self._parts.values() if part.id != FOOT]
        return shown + [part for part in self._parts.values() if part.id == FOOT]


class ViewLoaded(Value):
    """Sent when a page has loaded the view and looks for the output to draw it over."""

    type: Literal["loaded"]


class ViewAlive(Value):
    """Sent when a page has drawn the view and needs its contents."""

    type: Literal["alive"]


class ViewGone(Value):
    """Sent when the user cleared the output under the view."""

    type: Literal["gone"]


class ViewDecision(Value):
    """A command from the user."""

    type: Literal["command"]
    command: Command


FromPage = ViewLoaded | ViewAlive | ViewGone | ViewDecision
_FROM_PAGE: TypeAdapter[FromPage] = TypeAdapter(Annotated[FromPage, Field(discriminator="type")])


@dataclass(frozen=True)
class ShownView:
    """Ids by which the page finds a view."""

    model_id: str
    display_id: str
    more: tuple[str, ...] = ()  # marks of the output's pieces after the first


class RunWidget(Protocol):
    """The subset of anywidget's interface that we use."""

    layout: "RunWidget"
    _esm: str
    model_id: str

    def send(self, content: object) -> None: ...
    def on_msg(self, callback: Receive, remove: bool = False) -> None: ...
    def close(self) -> None: ...
    def _repr_mimebundle_(self) -> tuple[dict[str, Any], dict[str, Any]]: ...


class PageChannel:
    """Message channel of one view. Opened, replaced and closed on the main thread; the engine loop does all sending.

    Messages from the page arrive on the main thread or in a subshell, which only queue them.
    """

    def __init__(self, receive: Callable[[FromPage, DecidedBy], None], handled: Handled) -> None:
        self.receive = receive  # handles messages from the page, on the loop
        self._handled = handled
        self._view: RunWidget | None = None
        self.output: RunOutput | None = None  # output that contains the view; None before `open` and after `close`
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inbox: deque[tuple[object, DecidedBy]] = deque()
        self._outbox = PatchOutbox()
        self._messages = 0
        self._sent_at = float("-inf")
        # Makes the static output to store next in the document; None if the document is up to date.
        self._make_held: MakePieces | None = None
        self._hold_at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    @property
    def shown(self) -> "ShownView | None":
        """Ids a page needs to redraw the live view after a reload, or None before `open`."""
        if self._view is None or self.output is None:
            return None
        return ShownView(self._view.model_id, self.output.display_id, self.output.marks[1:])

    def open(self, held: MimeBundle) -> None:
        """Display an empty view over the static output `held`. Main thread."""
        self._view = make_view()
        self._view.on_msg(self._take_message)
        self.output = RunOutput(self._view.model_id)
        self.output.put(held)

    def move_here(self) -> None:
        """Move the view to the output of the running cell. Main thread."""
        if self.output is not None:
            self.output.move_here()

    def offer_widget(self) -> None:
        """Offer the view as a widget, for pages that load widgets only on first display. Thread-safe."""
        if self._view is not None and self.output is not None:
            self.output.offer_widget(bundle_of(self._view)[0])

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start delivering messages from the page. On the loop."""
        if self._loop is None:
            self._loop = loop
            self._drain_messages()

    def show(self, parts: Iterable[ViewPart]) -> None:
        """Send all parts to every view, replacing pending patches. On the loop."""
        self.drop()
        shown = list(parts)
        self._outbox.note_snapshot(shown)
        self._tell_page(cast("ViewSnapshot", {"type": "snapshot", "parts": [asdict(part) for part in shown]}))

    def patch(self, patches: Iterable[ViewPatch], hold: MakePieces | None = None, *, rests: bool = False) -> None:
        """Queue patches. They are sent immediately after a pause, else after the minimum gap. On the loop.

        Args:
            patches: Changes to the page.
            hold: Makes the static output to store in the document first; None for no change.
            rests: See `hold`.
        """
        if hold is not None:
            if rests:
                self._hold_at = max(self._hold_at, asyncio.get_running_loop().time() + END_WITHIN)
            self._make_held = hold
        self._outbox.add(patches)
        self._send_when_due()

    def hold(self, make: MakePieces, *, rests: bool = False) -> None:
        """Store new static output in the document before the next message to the page. On the loop.

        Args:
            make: Makes the output.
            rests: Whether the run is probably about to end, which stores the same output anyway, so that this can wait.
        """
        self.patch((), make, rests=rests)

    def drop(self) -> None:
        """Discard pending patches and output. On the loop."""
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
        """Replace the view with the static output, one piece per cell output. Main thread.

        Args:
            kept: The pieces.
            words: How the run ended.
            metadata: Metadata of each output.
            is_drawn: Whether a page has drawn the view. If not, a page's message may still arrive.
        """
        view, self._view = self._view, None
        output, self.output = self.output, None  # pending output is dropped
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
        """Update the document, then send the patches, so that the page never shows what a dead kernel would lose."""
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
            self._sent_at += PATCH_GAP  # two messages were sent, so wait for two gaps
        took = loop.time() - began
        self._hold_at = loop.time() + max(
            REST * took, sum(len(str(piece.bundle.get("text/html"))) for piece in held) / HOLD_RATE
        )

    def _tell_page(self, message: ToPage, view: RunWidget | None = None) -> None:
        if (view := view or self._view) is not None:
            view.send(message)

    def _take_message(self, _view: object, content: object, _buffers: object) -> None:
        """Queue a message. Any thread."""
        self._inbox.append((content, "person" if self._is_carried(content) else "code"))
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._drain_messages)

    def _drain_messages(self) -> None:
        while self._inbox:
            content, by = self._inbox.popleft()
            try:
                message = _FROM_PAGE.validate_python(content)
            except ValidationError:
                continue  # not a message of our view
            self.receive(message, by)

    def _is_carried(self, content: object) -> bool:
        """Return whether the message being handled carries this content to our view. If not, code called the widget."""
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
    """Return whether the view can be made in this kernel: widget packages and bundle exist."""
    try:
        widget_class(RUN_VIEW)
    except (ImportError, FileNotFoundError):
        return False
    return True


def make_view(bundle: str = RUN_VIEW) -> RunWidget:
    """Make a widget without displaying it. Main thread.

    Args:
        bundle: File name of its script in `STATIC`.
    """
    view_id = secrets.token_hex(16)
    return widget_class(bundle)(model_id=view_id, view_id=view_id)


def bundle_of(view: RunWidget) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the MIME bundle and metadata that make a front end draw the view."""
    return view._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]  # IPython's own protocol


def discard_view(view: RunWidget) -> None:
    """Close the view and its layout, so that ipywidgets keeps no reference to either. Main thread."""
    layout = view.layout
    view.close()
    layout.close()


def strip(view: RunWidget) -> None:
    """Remove the script from the state of a view that no page drew, since programs that run notebooks save that state.

    The replacement is a valid module that draws nothing, in case a page has drawn the view but not yet reported it.
    """
    view._esm = NO_SCRIPT  # pyright: ignore[reportPrivateUsage]  # anywidget's name for its script


@functools.cache
def widget_class(bundle: str) -> Callable[..., RunWidget]:
    """Return the widget class of a bundle.

    Args:
        bundle: File name in `STATIC`.

    Raises:
        ImportError: The widget packages aren't installed.
        FileNotFoundError: The bundle wasn't built.
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
    """Ordered patches that wait to be sent.

    Repeated updates of a part are merged, and growing text is sent as its suffix.
    """

    def __init__(self) -> None:
        self.waiting: list[ViewPatch] = []  # in order
        self._last: dict[str, int] = {}  # index of each part's latest waiting patch
        self._told: dict[str, str] = {}  # HTML of each growing text, as the page has it
        self.added = 0  # characters of waiting text; more than `FEW` if anything but text is waiting

    def add(self, patches: Iterable[ViewPatch]) -> None:
        for patch in patches:
            self._add_patch(patch)

    def take(self) -> list[ViewPatch]:
        """Return and clear the waiting patches."""
        taken = [self._shortened(patch) for patch in self.waiting]
        self.waiting, self._last, self.added = [], {}, 0
        return taken

    def note_snapshot(self, parts: Iterable[ViewPart]) -> None:
        """Record that the page receives these parts."""
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
        """Return the patch with only the HTML that the page doesn't have yet."""
        had, html = self._told.pop(patch["id"], ""), patch.get("html", "")
        if patch.get("kind") == "tail":
            self._told[patch["id"]] = html
        same = _common_length(had, html)
        return {**patch, "html": html[same:], "keep": _utf16_length(html[:same])} if same else patch


def _common_length(one: str, other: str) -> int:
    # Binary search over slice comparisons: faster than a Python loop over the characters.
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
