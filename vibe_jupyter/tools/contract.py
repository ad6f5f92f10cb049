"""The contract of a tool and of a set of tools, and a custom tool's definition.

A tool gets what it needs (a workspace, the kernel) in its constructor. The context of one call has four members,
and none is None.
"""

import functools
import json
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from vibe_jupyter.errors import ConfigError, ToolError
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.files.workspace import Located
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.protocol import Answered, Approval, Headline, Level, Preview, Question, Resource, ToolResult, ToolSpec
from vibe_jupyter.safe_imports import without_plugins

A = TypeVar("A", bound=BaseModel)

AskPerson = Callable[[Sequence[Question], str], Awaitable[tuple[Answered, ...] | None]]
"""Puts questions to the user, in the name of someone (empty for the agent), and waits for the answers; None when the
user answered none. Raises ToolError where nobody can answer."""

JUDGED_NAMES: Final = 1_000
"""Names of tools for which a filter remembers its verdict: a model may make up any."""
_SAYS_LITTLE: Final = frozenset(
    {"title", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems"}
)

_OF_CLASSES: Final = frozenset({"description", "additionalProperties"})
"""What nested definitions need not say: an unknown field is refused in words anyway."""

UNLISTED: Final[dict[str, JsonValue]] = {"unlisted": True}
"""As `json_schema_extra` of a field: accepted, and not in the schema that is sent."""

LONGEST_DESCRIPTION: Final = 4_000
"""Characters; every request carries it."""
BUILT_IN: Final = frozenset(
    {"ask_user_question", "bash", "checkpoint", "delete_cells", "edit_cell", "exit_plan_mode", "grep"}
    | {
        "insert_cell",
        "inspect",
        "inspect_variable",
        "list_variables",
        "memory",
        "move_cells",
        "read_cell",
        "read_file",
        "read_notebook",
    }
    | {"read_output", "run_cell", "run_cells", "run_code", "search_replace", "skill", "stale_cells", "task", "todo"}
    | {"trust_folder", "verify_notebook", "write_file"}
)
"""Names that mean our own tools, built, to come or gone: another of the name would be allowed by the grants of ours."""
TASK: Final = "task"
"""The tool that has sub-agents work: its calls of one answer run at once."""
READING_TOOLS: Final = ("inspect", "read_file", "grep")
"""What they tell unasked, code may tell that runs where it can have no effects."""
WITHOUT_EFFECTS: Final = frozenset(
    {*READING_TOOLS, "read_notebook", "todo", "ask_user_question", "skill", TASK, "exit_plan_mode"}
)
"""Tools that change nothing but the agent's own notes. `task` is one: a sub-agent may do no more than its caller."""
SANDBOXED: Final = frozenset({"run_code", "bash"})
"""Tools that have no effects under `permission = "sandbox"`."""
FORMER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "inspect": ("inspect_variable", "list_variables"),
    "read_notebook": ("read_cell", "read_output"),
    "run_cells": ("run_cell",),
}
"""What tools were called before: settings and saved permissions may still say so."""
_NAME: Final = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_SENTENCE: Final = lazy_pattern(r".*?[.!?](?=\s)")


def present_names(names: Iterable[str]) -> frozenset[str]:
    """The names of today for names of tools that may be `FORMER_NAMES`."""
    present = {former: name for name, formers in FORMER_NAMES.items() for former in formers}
    return frozenset(present.get(name, name) for name in names)


class ReportAdvance(Protocol):
    """Takes how far a call is; callable from any thread."""

    def __call__(self, done: float, total: float | None, words: str) -> None:
        """So many units are done, of as many in all if that is known; `words` may be empty."""
        ...


def ignore_progress(done: float, total: float | None, words: str) -> None:
    """Where nobody looks."""


OnAsking = Callable[[bool], None]
"""Told that a call begins to wait for what the user types, or waits no longer; from any thread. Must not raise."""


def unheard(_waits: bool) -> None:
    """Where nobody looks."""


class SubagentReport(NamedTuple):
    """How a sub-agent's work ended."""

    response: str
    """Everything it said."""
    turns_used: int
    completed: bool
    """False where a limit, an interrupt or an error ended it."""
    cost: float | None = None
    """US dollars; None where the prices of its model are not known."""
    error: str = ""
    limit: str = ""
    """What ended it, where a limit did, such as ``turns``."""


class Delegate(Protocol):
    """Has a sub-agent do a piece of work."""

    async def __call__(self, agent: str, task: str) -> SubagentReport:
        """Wait until it is done, or ended otherwise.

        Raises:
            ToolError: there is no such sub-agent.
        """
        ...


async def delegate_to_nobody(agent: str, task: str) -> SubagentReport:
    """Where a tool is used without a run, and in the run of a sub-agent."""
    raise ToolError("No sub-agent can work here.")


async def answer_nobody(questions: Sequence[Question], asker: str) -> tuple[Answered, ...] | None:
    """The answer where a tool is used without a run."""
    raise ToolError("Nobody is here to answer.")


class ToolContext(NamedTuple):
    """What one call may use of the run that makes it."""

    call_id: str
    progress: Callable[[str], None]
    """Show new output while the tool runs; callable from any thread."""
    cancelled: Callable[[], bool]
    """Whether the run was interrupted; for work on threads that cannot be cancelled by asyncio."""
    ask: AskPerson = answer_nobody
    advance: ReportAdvance = ignore_progress
    """Show how far it is, as a bar."""
    waits: OnAsking = unheard
    places: Mapping[str, Located] = MappingProxyType({})
    """Where each path of `Tool.touches` leads, as it was judged and shown; `Workspace.open_read` opens it."""
    delegate: Delegate = delegate_to_nobody
    """Has a sub-agent do a piece of work, within the limits and permissions of this run."""
    redact: Callable[[str], str] = str
    """Takes secrets out of a text before it is cut, so that none is parted; results are redacted as a whole anyway."""
    schema_only: bool = False
    """Whether the model may be told names, types and counts alone, and no value of the user's data."""
    approval: Approval | None = None
    """Who let it run; None where it runs without effects, or without a run."""
    model: str = ""
    """Whose call it is: name and server of the model, or the external client; empty without a run."""
    turn: int = 0
    """Request of the run that it answers, from 1; 0 for none."""
    explored: str = ""
    """Why the call could not be done without effects; empty if that was not tried."""


class Tool(Protocol[A]):
    """One thing the model can do. See `vibe_jupyter.tools.grep` for a small whole one."""

    @property
    def name(self) -> str:
        """Letters, digits, ``_`` and ``-``, at most 64."""
        ...

    @property
    def description(self) -> str:
        """A few lines for the model: what it does, when to use it, what comes back."""
        ...

    @property
    def level(self) -> Level:
        """How it is allowed where the configuration says nothing."""
        ...

    @property
    def arguments(self) -> type[A]:
        """The pydantic model of its arguments; the schema sent to the model is generated from it."""
        ...

    def headline(self, args: A) -> Headline:
        """The call in one line."""
        ...

    def preview(self, args: A) -> Preview:
        """Everything the call will do, as the approval card shows it."""
        ...

    def touches(self, args: A) -> Sequence[Resource]:
        """What the call reads, writes or executes. Decides nothing and opens nothing."""
        ...

    async def run(self, args: A, context: ToolContext) -> ToolResult:
        """Do it.

        Raises:
            ToolError: the model reads the text and can try something else.
        """
        ...


@runtime_checkable
class PrecheckedTool(Protocol):
    """A tool that can tell in advance that a call cannot be done, so that nobody is asked in vain."""

    async def precheck(self, args: Any) -> None:
        """Look at things as they stand now; called before the user is asked, and only then.

        Raises:
            ToolError: it cannot be done; the model reads why.
        """
        ...


@runtime_checkable
class WatchedTool(Protocol):
    """A tool whose card shows what it makes of something that others may change while the card waits."""

    async def look(self, args: Any) -> None:
        """See what stands there now, so that `Tool.preview` shows that.

        Raises:
            ToolError: nothing can be seen there.
        """
        ...

    async def wait_for_change(self, args: Any) -> None:
        """Return when something else may stand there; never where nobody tells."""
        ...


@runtime_checkable
class GradedTool(Protocol):
    """A tool of which some calls need less than others."""

    def level_of(self, args: Any) -> Level:
        """How this call is allowed where the configuration says nothing; never stricter than `Tool.level`."""
        ...


class NotExplored(NamedTuple):
    """A call was not done where it has no effects, or not to its end."""

    reason: str
    """In one line, for the card: why it needs the real thing."""
    is_harmful: bool = False
    """True if the real thing may be lost to it, so that a permission given in advance is not enough."""


@runtime_checkable
class ExploringTool(Protocol):
    """A tool that can do some calls where they can have no effects, so that nobody need be asked."""

    tried_in: str
    """Where it is tried, such as ``a sandbox``."""

    def can_explore(self, args: Any) -> bool:
        """Whether this call may be tried so."""
        ...

    async def explore(self, args: Any, context: ToolContext) -> ToolResult | NotExplored:
        """Do it without any effect, or say why that is not possible.

        Raises:
            ToolError: as `Tool.run`.
        """
        ...


_NAMED: Final = 6
"""Variables that are named."""


def lost_words(names: Sequence[str]) -> str:
    """What is said of variables that undo would not restore; empty for none."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"undo would not restore {', '.join(names[:_NAMED])}{more}" if names else ""


@runtime_checkable
class ForeseeingTool(Protocol):
    """A tool that can tell what a call would do, so that the card says it."""

    def can_foresee(self, args: Any) -> bool:
        """Whether it can of this call."""
        ...

    async def foresee(self, args: Any, context: ToolContext, *, tries: bool) -> str:
        """What the call would change, and what of it cannot be undone, in a line; empty where that cannot be told.
        Never takes longer than seconds.

        Args:
            args: of the call.
            context: of the call.
            tries: whether it may be tried where it has no effects; else it says only what cannot be undone.

        Raises:
            ToolError: the user interrupted it.
        """
        ...


@runtime_checkable
class RenamedTool(Protocol):
    """A tool that settings may name in other ways too."""

    @property
    def others(self) -> Sequence[str]:
        """Its further names."""
        ...

    @property
    def unclear(self) -> Sequence[str]:
        """Names that mean another tool too: what is forbidden under them is forbidden, nothing is allowed."""
        ...


WithoutValues = Literal["always", "of code files", "never"]
"""When the model gets the results of a tool where no value of the user's data may be sent; else it hears their size.

``always``: the tool heeds `ToolContext.schema_only`, or no result of it has a value.
``of code files``: where all files it touched hold code.
"""


@runtime_checkable
class ToldWithoutValues(Protocol):
    """A tool that says itself when its results may be told without values; of all others they never are."""

    @property
    def without_values(self) -> WithoutValues:
        """When."""
        ...


def told_without_values(tool: Tool[Any]) -> WithoutValues:
    """What a tool says of itself."""
    return tool.without_values if isinstance(tool, ToldWithoutValues) else "never"


@runtime_checkable
class SelfLimitedTool(Protocol):
    """A tool that keeps its results within a limit of its own."""

    @property
    def result_limit(self) -> int:
        """Characters of a result that the model is given whole."""
        ...


class Toolset(Protocol):
    """Some tools, from wherever they come."""

    def specs(self) -> Sequence[ToolSpec]:
        """What the model is offered, in a stable order."""
        ...

    def find(self, name: str) -> Tool[Any] | None:
        """The tool of that name; None when there is none."""
        ...


class StaticToolset:
    """A fixed list of tools; their schemas are generated once, when they are asked for."""

    def __init__(self, tools: Sequence[Tool[Any]]) -> None:
        self._tools: Mapping[str, Tool[Any]] = {tool.name: tool for tool in tools}

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    @functools.cached_property
    def _specs(self) -> Sequence[ToolSpec]:
        return tuple(tool_spec(tool) for tool in self._tools.values())

    def find(self, name: str) -> Tool[Any] | None:
        return self._tools.get(name)


def tool_spec(tool: Tool[Any]) -> ToolSpec:
    """The schema of a tool's pydantic arguments: nested definitions stay.

    Every request carries it, so what a model does not need goes: titles, the class's own words, bounds (a wrong
    value is answered with what is wrong), and defaults that say no more than "not given".
    """
    schema = _lean_schema(schema_of(tool.arguments))
    assert isinstance(schema, dict)
    schema.pop("description", None)
    schema.setdefault("properties", {})
    schema["additionalProperties"] = False
    _drop_unused(schema)
    return ToolSpec(name=tool.name, description=tool.description, parameters=schema)


class _QuietSchema(GenerateJsonSchema):
    """Leaves out a default that JSON has not, such as a class, and does not warn of it in the user's cell."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Say nothing."""


def schema_of(arguments: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of the arguments of a tool."""
    with without_plugins():
        return arguments.model_json_schema(schema_generator=_QuietSchema)


def _lean_schema(node: JsonValue, *, names: bool = False) -> JsonValue:
    """Without keywords that say little; a property may be called as such a keyword is."""
    if isinstance(node, list):
        return [_lean_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        listed = {key: value for key, value in node.items() if not (isinstance(value, dict) and "unlisted" in value)}
        return {key: _lean_schema(value) for key, value in listed.items()}
    node = _not_null(node)
    return {
        key: _lean_schema(value, names=key in ("properties", "$defs"))
        for key, value in node.items()
        if key not in _SAYS_LITTLE and not (key == "default" and value in (None, False, "", 0, []))
    }


def _drop_unused(schema: dict[str, JsonValue]) -> None:
    """Take out definitions that only an unlisted field refers to, and the classes' own words."""
    definitions = schema.get("$defs")
    if not isinstance(definitions, dict):
        return
    text = json.dumps({**schema, "$defs": list(definitions.values())})
    used: dict[str, JsonValue] = {
        name: {key: value for key, value in one.items() if key not in _OF_CLASSES}
        for name, one in definitions.items()
        if isinstance(one, dict) and f'"#/$defs/{name}"' in text
    }
    schema.pop("$defs")
    if used:
        schema["$defs"] = used


def _not_null(node: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """``X or null, by default null`` is an ``X`` that need not be given."""
    kinds = node.get("anyOf")
    if not isinstance(kinds, list) or "default" not in node or node["default"] is not None:
        return node
    others = [kind for kind in kinds if kind != {"type": "null"}]
    if len(others) != 1 or not isinstance(others[0], dict):
        return node
    return {**others[0], **{key: value for key, value in node.items() if key != "anyOf"}}


class FilteredToolset:
    """A set without the tools the user does not want. Each name is judged once."""

    def __init__(
        self, tools: Toolset, keep: Callable[[str], bool], *, forbids: Callable[[str], bool] = lambda _name: False
    ) -> None:
        """
        Args:
            tools: the whole set.
            keep: whether there is a tool of this name at all.
            forbids: whether it may never run. Such a tool isn't offered, but a call of it is found, so that the
                permissions answer it with their reason.
        """
        self._tools = tools
        self._keep = functools.lru_cache(JUDGED_NAMES)(keep)
        self._forbids = functools.lru_cache(JUDGED_NAMES)(forbids)

    def specs(self) -> Sequence[ToolSpec]:
        return [spec for spec in self._tools.specs() if self._keep(spec.name) and not self._forbids(spec.name)]

    def find(self, name: str) -> Tool[Any] | None:
        return self._tools.find(name) if self._keep(name) else None


class BriefToolset:
    """A set that is described in a sentence for each tool, without how it is used."""

    def __init__(self, tools: Toolset) -> None:
        self._tools = tools

    def specs(self) -> Sequence[ToolSpec]:
        return [
            spec.model_copy(update={"description": _first_sentence(spec.description)}) for spec in self._tools.specs()
        ]

    def find(self, name: str) -> Tool[Any] | None:
        return self._tools.find(name)


def _first_sentence(text: str) -> str:
    line = text.strip().lstrip("#").strip().partition("\n")[0]
    found = _SENTENCE.match(line)
    return found[0] if found else line


class JoinedToolsets:
    """Several sets as one; of one name the first one's counts."""

    def __init__(self, *toolsets: Toolset) -> None:
        self._toolsets = toolsets

    def specs(self) -> Sequence[ToolSpec]:
        found: dict[str, ToolSpec] = {}
        for toolset in self._toolsets:
            for spec in toolset.specs():
                found.setdefault(spec.name, spec)
        return list(found.values())

    def find(self, name: str) -> Tool[Any] | None:
        return next(filter(None, (toolset.find(name) for toolset in self._toolsets)), None)


class ToolOptions(BaseModel):
    """The base of every tool's options: frozen, and closed to keys that mean nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ToolDefinition(NamedTuple):
    """What a tool is called, takes and does."""

    name: str
    description: str
    arguments: type[BaseModel]
    call: Callable[[BaseModel, ToolContext], Any]
    """Gives the result, or something to wait for, or something that yields progress and last the result."""
    is_async: bool
    """Whether `call` returns at once."""
    source: str
    """Where it was written, for the user."""
    result: type[BaseModel] | None = None
    """What each result must be; None where the tool does not say."""
    check: Callable[[BaseModel], Any] | None = None
    """The tool's own check of a call, which gives a permission; None where it has none."""


def checked_name(name: str) -> str:
    """A name a tool may have.

    Raises:
        ConfigError: it may not; says why.
    """
    if name in BUILT_IN or name.startswith("mcp__"):
        raise ConfigError(f"There is a tool {name} already. Give yours another name: @vibe_jupyter.tool(name=…).")
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"{name!r} is not a valid tool name: letters, digits, _ and - only, at most 64.")
    return name


def description_of(words: str, prompt: str | None) -> str:
    """What the model reads: a usage text of the tool's own, else the words."""
    return head_and_tail((prompt or "").strip() or words.strip(), LONGEST_DESCRIPTION)


_here: Final[dict[str, ToolDefinition]] = {}
_collecting: Final[ContextVar[list[ToolDefinition] | None]] = ContextVar("collecting", default=None)


def register_tool(definition: ToolDefinition) -> None:
    """Offer a tool from the next request on; or hand it to who loads the file it stands in."""
    collected = _collecting.get()
    if collected is None:
        _here[definition.name] = definition
    else:
        collected.append(definition)


def registered_tools() -> tuple[ToolDefinition, ...]:
    """What was defined in cells and imported modules."""
    return tuple(_here.values())


@contextmanager
def collect_tools() -> Generator[list[ToolDefinition]]:
    """Everything that is defined inside belongs to the caller."""
    collected: list[ToolDefinition] = []
    token = _collecting.set(collected)
    try:
        yield collected
    finally:
        _collecting.reset(token)
