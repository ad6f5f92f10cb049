"""What JupyterLab's side panel shows, and the commands its buttons give.

The page asks between cells, by an expression of a silent request. Each button gives a command of `%vibe`, so that
nothing can be done in the panel alone.
"""

import concurrent.futures
import contextlib
import io
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.app.context_commands import ContextCommands
from vibe_jupyter.app.model_setup import list_server_models
from vibe_jupyter.commands.mcp import server_rows
from vibe_jupyter.commands.registry import run_command
from vibe_jupyter.commands.sessions import age_of, place_of
from vibe_jupyter.errors import ConfigError, JournalError, ModelError, VibeError
from vibe_jupyter.session.store import unique_ids
from vibe_jupyter.ui.run_output import UndoableRun

if TYPE_CHECKING:
    from vibe_jupyter.app.app import App

LISTED: Final = 200
"""Conversations that the panel gets; `%vibe sessions all` has all."""
_REFERENCE: Final = re.compile(r"#(\d+)( \[\d+\])?")
"""A cell in the words that the model gets."""
MODELS_WAIT: Final = 5.0
"""Seconds that a server may take to list its models."""


class PanelSession(TypedDict):
    """A saved conversation."""

    id: str
    """As short as it can be told from the others."""
    title: str
    about: str
    """Where it was held, and what it cost."""
    age: str
    here: bool
    """Whether it belongs to this notebook."""
    present: bool
    """Whether it is the open one."""


class PanelModel(TypedDict):
    """A model that can be chosen."""

    name: str
    problem: str
    """What it lacks; empty where it lacks nothing."""


class PanelContext(TypedDict):
    """What the next request would carry."""

    tokens: int
    window: int
    parts: dict[str, int]


class PanelGrant(TypedDict):
    """A saved permission."""

    pattern: str
    """As `%vibe permissions revoke` takes it."""
    scope: Literal["session", "project"]


class PanelServer(TypedDict):
    """An MCP server."""

    name: str
    state: str
    action: str
    """The command behind `%vibe mcp` that helps it on; empty where none does."""
    why: str
    """What is wrong with it, in a line; empty where nothing is."""


class PanelCell(TypedDict):
    """A cell that no longer shows what the cells above it give."""

    id: str
    number: int
    """Its place in the notebook, from 1."""
    why: str


class PanelState(TypedDict):
    """Everything the panel shows."""

    sessions: list[PanelSession]
    model: str
    """What the model of the next prompt was chosen by; empty where there is none."""
    models: list[PanelModel]
    context: PanelContext | None
    cost: float | None
    """US dollars of the open conversation; null where no price is known."""
    grants: list[PanelGrant]
    servers: list[PanelServer]
    stale: list[PanelCell]
    said: str
    """What the command printed, or why it failed; empty where none was given."""
    failed: bool


class PanelModels(TypedDict):
    """What the server of the current model offers."""

    models: list[str]
    """As `%vibe model` takes them."""
    error: str
    """Why there are none; empty where there are."""


class PanelUndo(TypedDict):
    """What undoing a run would do now."""

    restored: list[str]
    """What would be as before the run, by name."""
    changed_since: list[str]
    """What of it was changed after the run: those changes would be lost."""
    lost: list[str]
    """What would stay as it is, and why."""
    problem: str
    """Why the run can't be undone; empty where it can."""


class PanelAnswer:
    """An answer that IPython gives to the page as JSON."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self._value = value

    def _repr_json_(self) -> Mapping[str, Any]:
        return self._value

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def panel_state(app: "App", command: str = "") -> PanelState:
    """Do a command, then say how everything stands. Main thread, while nothing runs.

    Args:
        app: the kernel's.
        command: what follows `%vibe`; empty for none.
    """
    said, failed = _run_quietly(app, command) if command else ("", False)
    sessions, cost = _sessions(app)
    model = ""
    with contextlib.suppress(ConfigError):
        model = app.models.chosen_name()
    return PanelState(
        sessions=sessions,
        model=model,
        models=_models(app),
        context=_context(app) if model else None,
        cost=cost,
        grants=[PanelGrant(pattern=pattern, scope=scope) for scope, pattern in app.grants.numbered()],
        servers=_servers(app),
        stale=[
            PanelCell(id=cell.id, number=cell.number, why=_REFERENCE.sub(r"cell \1", cell.why))
            for cell in app.sessions.notebook_cells()
            if cell.state == "stale"
        ],
        said=said,
        failed=failed,
    )


def panel_models(app: "App") -> PanelModels:
    """The models that the server of the current model lists. Main thread."""
    engine = Engine()
    try:
        model = app.models.current()
        listed = engine.submit(list_server_models(model)).result(MODELS_WAIT)
    except (ConfigError, ModelError) as error:
        return PanelModels(models=[], error=str(error))
    except concurrent.futures.TimeoutError:
        return PanelModels(models=[], error="The server did not list its models in time.")
    finally:
        engine.close()
    place = model.server.name or model.server.api_base
    return PanelModels(models=[f"{one.name}@{place}" for one in listed], error="")


def panel_undo(app: "App", run: UndoableRun) -> PanelUndo:
    """What undoing a run would do now. Main thread."""
    try:
        plan = app.undo.plan_of(run)
    except VibeError as error:
        return PanelUndo(restored=[], changed_since=[], lost=[], problem=str(error))
    return PanelUndo(
        restored=plan.restored_without(plan.lost), changed_since=plan.changed_since, lost=plan.lost, problem=""
    )


def _run_quietly(app: "App", command: str) -> tuple[str, bool]:
    """What a command prints, and whether it failed."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            said = run_command(command, lambda: app, app)
    except VibeError as error:
        return str(error), True
    if said is None:
        return "That is a prompt. Write it below %%vibe.", True
    return said or printed.getvalue().strip(), False


def _models(app: "App") -> list[PanelModel]:
    with contextlib.suppress(ConfigError):
        return [PanelModel(name=name, problem=problem) for name, problem in app.models.choices()]
    return []


def _sessions(app: "App") -> tuple[list[PanelSession], float | None]:
    """The latest conversations, and what the open one cost."""
    try:
        known = app.sessions.saved.store.sessions()
    except (ConfigError, JournalError):
        return [], None
    ids, place = unique_ids(known), app.sessions.saved.place()
    present = app.sessions.conversation.id if app.sessions.conversation is not None else ""
    listed = [
        PanelSession(
            id=ids[one.id],
            title=one.title,
            about=" · ".join(filter(None, (place_of(one), "" if one.cost is None else f"${one.cost:.2f}"))),
            age=age_of(one.ended),
            here=one.id == present or (bool(place.notebook) and one.notebook == place.notebook),
            present=one.id == present,
        )
        for one in known[:LISTED]
    ]
    return listed, next((one.cost for one in known if one.id == present), None)


def _context(app: "App") -> PanelContext | None:
    with contextlib.suppress(ConfigError):
        if (measured := ContextCommands(app.context).measure()) is not None:
            size, parts = measured
            named = {str(part): count for part, count in parts.items() if count}
            return PanelContext(tokens=size.tokens, window=size.window, parts=named)
    return None


def _servers(app: "App") -> list[PanelServer]:
    with contextlib.suppress(ConfigError):
        if app.mcp.names():
            return [
                PanelServer(name=row.name, state=row.state, action=row.action, why=row.why)
                for row in server_rows(app.mcp.present)
            ]
    return []
