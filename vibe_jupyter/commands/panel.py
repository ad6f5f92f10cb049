"""Contents of JupyterLab's side panel, and the commands of its buttons.

Between executions the page evaluates an expression in a silent request. Each button runs a `%vibe` command, so nothing
is possible in the panel only.
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

LISTED: Final = 200  # conversations sent to the panel; `%vibe sessions all` lists all
# A reference to a cell in texts for the model.
_REFERENCE: Final = re.compile(r"#(\d+)( \[\d+\])?")
MODELS_WAIT: Final = 5.0  # seconds that a server may take to list its models


class PanelSession(TypedDict):
    """A saved conversation."""

    id: str
    """The shortest unique prefix of its id."""
    title: str
    about: str
    """Where it was held, and what it cost."""
    age: str
    here: bool
    """True if it belongs to this notebook."""
    present: bool
    """True if it is the open one."""


class PanelModel(TypedDict):
    """A model that can be chosen."""

    name: str
    problem: str
    """Why it can't be used, or ""."""


class PanelContext(TypedDict):
    """Size of the next request."""

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
    """The `%vibe mcp` command that resolves its problem, or ""."""
    why: str
    """Its problem in one line, or ""."""


class PanelCell(TypedDict):
    """A cell whose output is stale because cells above it have changed."""

    id: str
    number: int
    """Position in the notebook, from 1."""
    why: str


class PanelState(TypedDict):
    """Everything the panel shows."""

    sessions: list[PanelSession]
    model: str
    """Name of the next prompt's model, or "" without one."""
    models: list[PanelModel]
    context: PanelContext | None
    cost: float | None
    """US dollars spent in the open conversation, or null without known prices."""
    grants: list[PanelGrant]
    servers: list[PanelServer]
    stale: list[PanelCell]
    said: str
    """Output or error of the command, or "" without a command."""
    failed: bool


class PanelModels(TypedDict):
    """Models on the server of the current model."""

    models: list[str]
    """Names as `%vibe model` takes them."""
    error: str
    """Why there are none, or ""."""


class PanelUndo(TypedDict):
    """Preview of undoing a run."""

    restored: list[str]
    """Names of what would be restored."""
    changed_since: list[str]
    """Names of what has changed since the run: those changes would be lost."""
    lost: list[str]
    """What would remain as it is, each with the reason."""
    problem: str
    """Why the run can't be undone, or ""."""


class PanelAnswer:
    """Wrapper that makes IPython send a value to the page as JSON."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self._value = value

    def _repr_json_(self) -> Mapping[str, Any]:
        return self._value

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def panel_state(app: "App", command: str = "") -> PanelState:
    """Run a command, then return the whole state of the panel. Main thread only, while no run is active.

    Args:
        app: The kernel's app.
        command: Text after `%vibe`, or "" for none.
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
    """Return the models that the server of the current model lists. Main thread only."""
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
    """Preview undoing a run. Main thread only."""
    try:
        plan = app.undo.plan_of(run)
    except VibeError as error:
        return PanelUndo(restored=[], changed_since=[], lost=[], problem=str(error))
    return PanelUndo(
        restored=plan.restored_without(plan.lost), changed_since=plan.changed_since, lost=plan.lost, problem=""
    )


def _run_quietly(app: "App", command: str) -> tuple[str, bool]:
    """Return a command's output or error, and whether it failed."""
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
    """Return the latest conversations, and the cost of the open one."""
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
