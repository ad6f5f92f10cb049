"""A stage in JupyterLab: any run, as far as it went, shown by the real page, or left as the notebook keeps it."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from playwright.sync_api import Locator

from tests.browser.lab import Lab
from tests.ui.runs import transcript
from vibe_jupyter.protocol import ApprovalRequested, Event
from vibe_jupyter.ui.page import PatchOutbox, ViewPart
from vibe_jupyter.ui.transcript import Transcript

VIEW = """
import json
from IPython.display import display
from vibe_jupyter.ui import page as run_view
heard = []
view = run_view.make_view()
view.on_msg(lambda _view, content, _buffers: heard.append(content))
bundle, metadata = run_view.bundle_of(view)
display(bundle, metadata=metadata, raw=True, display_id="view")
"""
KEPT = """
display({"text/html": "<p></p>"}, raw=True, display_id="kept")
"""
KEPT_AT, LIVE = 0, 1
"""Cells. Nothing stands below the view that it could push away."""

ASK = """async code => {
    const panel = [...window.jupyterapp.shell.widgets("main")].find(one => one.sessionContext);
    const { kernel } = panel.sessionContext.session;
    const future = kernel.requestExecute({ code, store_history: false });
    let said = "";
    future.onIOPub = ({ header, content }) => {
        if (header.msg_type === "stream") said += content.text;
        if (header.msg_type === "error") said += content.traceback.join(" ");
    };
    const reply = await future.done;
    if (reply.content.status !== "ok") throw new Error(said);
    return said;
}"""


class Stage:
    """The view in the last cell, the kept form in the first; the kernel is spoken to without any cell."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.path = lab.open_again(f"from IPython.display import display\n{KEPT}", VIEW)
        lab.run(KEPT_AT, LIVE)
        lab.wait_for_count_above(LIVE, None)
        self.view.wait_for(state="attached")

    @property
    def view(self) -> Locator:
        return self.lab.output(LIVE).locator(".vibe-run")

    @property
    def kept(self) -> Locator:
        return self.lab.output(KEPT_AT).locator(".jp-RenderedHTML")

    def do(self, source: str) -> str:
        """Let the kernel run something, without a cell that would take focus and scroll; gives what it printed."""
        return self.lab.page.evaluate(ASK, source)

    def send(self, *messages: object) -> None:
        """Say these to the page, one after the other."""
        self.do(f"for message in json.loads({json.dumps(messages)!r}): view.send(message)")

    def show(self, events: Iterable[Event]) -> None:
        """A run as far as it went."""
        self.show_parts(transcript(events).parts())

    def show_parts(self, parts: Sequence[ViewPart]) -> None:
        shown = [asdict(part) for part in parts]
        self.send({"type": "snapshot", "parts": []}, {"type": "snapshot", "parts": shown})
        self.view.locator(f"[data-part={json.dumps(parts[-1].id)}]").wait_for(state="attached")

    def keep(self, *runs: Iterable[Event]) -> None:
        """What is left of these runs."""
        html = "".join(str(transcript(events).bundle()["text/html"]) for events in runs)
        self.do(f'display({{"text/html": {html!r}}}, raw=True, display_id="kept", update=True)')
        self.kept.locator("div").first.wait_for(state="attached")

    def end(self, events: Iterable[Event]) -> None:
        """Let the kept form take the place of the view, as at the end of a run."""
        bundle = transcript(events).bundle()
        self.do(
            "from IPython.display import update_display\n"
            'view.send({"type": "over", "words": "Done"})\n'
            f'update_display({bundle!r}, raw=True, display_id="view")\n'
            "run_view.discard_view(view)"
        )
        self.view.wait_for(state="detached")

    def heard(self) -> list[dict[str, object]]:
        """What the user decided so far."""
        told = json.loads(self.do("print(json.dumps(heard))"))
        return [message["command"] for message in told if message["type"] == "command"]


def messages(events: Iterable[Event], *, each: int) -> list[dict[str, object]]:
    """A run as the kernel tells it: the changes of so many events in one message, and a card at once."""
    told: list[dict[str, object]] = []
    folded, outbox = Transcript(lambda: 0.0), PatchOutbox()
    for number, event in enumerate(events, 1):
        outbox.add(folded.apply(event))
        if number % each == 0 or isinstance(event, ApprovalRequested):
            told.append({"type": "patches", "seq": len(told) + 1, "patches": outbox.take()})
    told.append({"type": "patches", "seq": len(told) + 1, "patches": outbox.take()})
    return told


def everything(scenes: dict[str, list[Event]]) -> list[ViewPart]:
    """The parts of many runs as one view: what is true of it is true of each."""
    parts: list[ViewPart] = []
    for name, events in scenes.items():
        for part in transcript(events).parts():
            html = part.html.replace("approval-c1", f"approval-{name}").replace("Approval: ", f"Approval ({name}): ")
            parts.append(ViewPart(f"{name}-{part.id}", part.kind, html))
    return parts
