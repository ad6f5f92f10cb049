"""The pages and views that show this kernel's notebook, and which of them is asked."""

from collections.abc import Iterable

from pydantic import ConfigDict, JsonValue

from vibe_jupyter.protocol.value import Value


class Address(Value):
    """One view of the notebook in one browser tab."""

    client: str
    """The session of its connection to the kernel."""
    panel: str
    """Its own name among the views of one tab."""


class Panel(Value):
    """What a view said of itself."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    client: str
    panel: str
    path: str
    """Of the notebook, as the server knows it; right also after a rename."""
    version: str = ""
    """Of the extension."""
    front_end: str = ""
    """Such as ``jupyterlab 4.6.6``."""
    visible: bool = False
    ran: bool = False
    """Whether this tab started the running cell."""

    @classmethod
    def of(cls, client: str, panel: str, said: dict[str, JsonValue]) -> "Panel":
        """From the answer to a hello.

        Raises:
            pydantic.ValidationError: it is none.
        """
        return cls.model_validate({**said, "client": client, "panel": panel})

    @property
    def address(self) -> Address:
        return Address(client=self.client, panel=self.panel)

    def version_advice(self, ours: str) -> str:
        """What to install where, if the two halves differ in more than the last number; empty where they fit."""
        page, kernel = _release(self.version), _release(ours)
        if page == kernel:
            return ""
        remedy = (
            f"run `pip install 'vibe-jupyter=={ours}'` where JupyterLab runs, and reload the page"
            if page < kernel
            else f"run `%pip install vibe-jupyter=={self.version}` in a cell, and restart the kernel"
        )
        return (
            f"The notebook extension is version {self.version or 'unknown'}, this kernel's package {ours}. "
            f"If something misbehaves, {remedy}."
        )


def best_panel(panels: Iterable[Panel]) -> Panel | None:
    """The tab that ran the cell, else one that is on the screen, else the first; None of none."""
    return max(panels, key=lambda panel: (panel.ran, panel.visible), default=None)


def _release(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()
