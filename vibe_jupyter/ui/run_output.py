"""What stands in the cell while a run goes on: its static form so far, over which a page draws the live view.

So the document holds what happened at every moment, whatever becomes of the kernel, and nothing that only a kernel can
show. A page that loads widgets with their first view alone is offered the widget as well.
"""

import secrets
from collections.abc import Mapping
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import (
    display,  # pyright: ignore[reportUnknownVariableType] (untyped)
    update_display,  # pyright: ignore[reportUnknownVariableType] (untyped)
)

from vibe_jupyter.protocol import MimeBundle

MARK: Final = "data-vibe-view"
"""The attribute by which the page finds the output that a view belongs to."""
MOVED: Final = "This run is now shown in another cell."
"""Stands where a view was."""


class RunOutput:
    """One output of a cell, by its display id."""

    def __init__(self, view_id: str) -> None:
        self.display_id = secrets.token_hex(8)
        self._view_id = view_id
        self._held: MimeBundle = {}
        self._widget: Mapping[str, Any] = {}
        """What makes a page draw the widget; empty where none needs to be told."""

    def put(self, held: MimeBundle) -> None:
        """Show it in the cell that runs now. Main thread."""
        self._held = held
        display(self._bundle(), raw=True, display_id=self.display_id)

    def move_here(self) -> None:
        """Show it in the cell that runs now, and nowhere else. Main thread."""
        update_display({"text/plain": MOVED}, raw=True, display_id=self.display_id)
        self.display_id = secrets.token_hex(8)
        self.put(self._held)

    def hold(self, held: MimeBundle) -> None:
        """Have the document hold this. From any thread, also while the main thread runs code.

        Where a page draws the widget it stays as it is: with another content the page would draw it again.
        """
        self._held = held
        if not self._widget:
            _publish_update(self._bundle(), self.display_id)

    def offer_widget(self, widget: Mapping[str, Any]) -> None:
        """Have the page draw this widget in its place. From any thread."""
        self._widget = widget
        _publish_update(self._bundle(), self.display_id)

    def leave(self, kept: MimeBundle, metadata: Mapping[str, Any] | None) -> None:
        """Leave this for good. Main thread."""
        update_display(kept, metadata=metadata, raw=True, display_id=self.display_id)

    def _bundle(self) -> MimeBundle:
        return {**self._widget, **marked(self._view_id, self._held)}


def marked(view_id: str, held: MimeBundle) -> MimeBundle:
    """What the document holds, as an output that a page draws this view over."""
    return {**held, "text/html": f'<div {MARK}="{view_id}">{held.get("text/html", "")}</div>'}


def _publish_update(bundle: MimeBundle, display_id: str) -> None:
    """`update_display` without waiting for what was printed, which a thread other than the main one must not do."""
    publisher: Any = InteractiveShell.instance().display_pub
    content = {"data": bundle, "metadata": {}, "transient": {"display_id": display_id}}
    publisher.session.send(
        publisher.pub_socket, "update_display_data", content, parent=publisher.parent_header, ident=publisher.topic
    )
