"""Interfaces of tools and toolsets, and the definition of a custom tool.

A tool receives its dependencies (a workspace, the kernel) in its constructor. What depends on a single call is passed
to `Tool.run` in a `ToolContext`, none of whose callbacks is ever None.
"""

import asyncio
import functools
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from vibe_jupyter.errors import ConfigError, ToolError
from vibe_jupyter.files.truncation import RESULT_LIMIT, head_and_tail
from vibe_jupyter.files.workspace import Located
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.protocol import Answered, Approval, Headline, Level, Preview, Question, Resource, ToolResult, ToolSpec
from vibe_jupyter.safe_imports import without_plugins

A = TypeVar("A", bound=BaseModel)

# Asks the user questions on behalf of someone ("" for the agent) and waits for the answers. Returns None if the user
# answered none, and raises ToolError if nobody can answer.
AskPerson = Callable[[Sequence[Question], str], Awaitable[tuple[Answered, ...] | None]]

# Size of a filter's cache of tool names; bounded, since a model may invent any number of them
JUDGED_NAMES: Final = 1_000
_SAYS_LITTLE: Final = frozenset(
    {"title", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems"}
)

# Keywords omitted from nested definitions; unknown fields are rejected with a clear message anyway
_OF_CLASSES: Final = frozenset({"description", "additionalProperties"})

# `json_schema_extra` of a field that is accepted but omitted from the published schema
UNLISTED: Final[dict[str, JsonValue]] = {"unlisted": True}

LONGEST_DESCRIPTION: Final = 4_000  # characters; every request includes the descriptions
# Names of our own tools, including former and planned ones. Another tool with such a name would inherit the permissions
# granted to ours.
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
TASK: Final = "task"  # runs a sub-agent; calls in one response run concurrently
# Tools that only read. Code without side effects may return whatever these return without approval.
READING_TOOLS: Final = ("inspect", "read_file", "grep")
# Tools without side effects other than on the agent's own notes. This includes `task`, because a sub-agent never has
# more permissions than its caller.
WITHOUT_EFFECTS: Final = frozenset(
    {*READING_TOOLS, "read_notebook", "todo", "ask_user_question", "skill", TASK, "exit_plan_mode"}
)
SANDBOXED: Final = frozenset({"run_code", "bash"})  # tools without side effects under `permission = "sandbox"`
# Earlier names of tools, which settings and saved permissions may still contain.
FORMER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "inspect": ("inspect_variable", "list_variables"),
    "read_notebook": ("read_cell", "read_output"),
    "run_cells": ("run_cell",),
}
_NAME: Final = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_SENTENCE: Final = lazy_pattern(r".*?[.!?](?=\s)")


def present_names(names: Iterable[str]) -> frozenset[str]:
    """Replace former tool names by current ones."""
    present = {former: name for name, formers in FORMER_NAMES.items() for former in formers}
    return frozenset(present.get(name, name) for name in names)


class ReportAdvance(Protocol):
    """Reports the progress of a call. Thread-safe."""

    def __call__(self, done: float, total: float | None, words: str) -> None:
        """Report the number of finished units, the total (None if unknown), and an optional message."""
        ...


def ignore_progress(done: float, total: float | None, words: str) -> None:
    """Discard progress reports."""


# Called when a call starts or stops waiting for text input by the user; from any thread. Must not raise.
OnAsking = Callable[[bool], None]


def unheard(_waits: bool) -> None:
    """Discard notifications about waiting."""


class SubagentReport(NamedTuple):
    """Result of a sub-agent."""

    response: str  # all of its text
    turns_used: int
    completed: bool  # False if a limit, an interrupt or an error ended it
    cost: float | None = None  # US dollars; None if the model's prices are unknown
    error: str = ""
    limit: str = ""  # the limit that ended it, such as ``turns``, or ""


class Delegate(Protocol):
    """Runs sub-agents."""

    async def __call__(self, agent: str, task: str) -> SubagentReport:
        """Run a sub-agent and wait for it.

        Raises:
            ToolError: there is no such sub-agent.
        """
        ...


async def delegate_to_nobody(agent: str, task: str) -> SubagentReport:
    """Reject the request: tools used outside a run and sub-agents can't delegate."""
    raise ToolError("No sub-agent can work here.")


async def answer_nobody(questions: Sequence[Question], asker: str) -> tuple[Answered, ...] | None:
    """Reject the questions, for tools used outside a run."""
    raise ToolError("Nobody is here to answer.")


class ToolContext(NamedTuple):
    """The run's services and state for one tool call."""

    call_id: str
    progress: Callable[[str], None]  # shows new output while the tool runs; thread-safe
    # Returns whether the run was interrupted, for worker threads, which asyncio can't cancel
    cancelled: Callable[[], bool]
    ask: AskPerson = answer_nobody
    advance: ReportAdvance = ignore_progress  # shows a progress bar
    waits: OnAsking = unheard
    # Location of each path in `Tool.touches`, as approved; open it with `Workspace.open_read`
    places: Mapping[str, Located] = MappingProxyType({})
    delegate: Delegate = delegate_to_nobody  # runs a sub-agent within the run's limits and permissions
    # Redacts secrets in text before it is shortened, so that none is cut in two; whole results are redacted anyway
    redact: Callable[[str], str] = str
    # True if only names, types and counts may be sent to the model, and no value of the user's data
    schema_only: bool = False
    approval: Approval | None = None  # who approved the call; None if it runs without side effects, or outside a run
    model: str = ""  # caller: the model and its server, or the external client; "" outside a run
    turn: int = 0  # number of the model request that made the call, from 1; 0 for none
    explored: str = ""  # reason why the call couldn't be done without side effects; "" if that wasn't tried


class NotExplored(NamedTuple):
    """Outcome of a call that couldn't be completed without side effects."""

    reason: str  # one line for the card: why the call has to run for real
    # True if running it for real may destroy work, so that a standing permission is not enough
    is_harmful: bool = False


class Restriction(NamedTuple):
    """A tool's verdict on one of its calls. It can only narrow permissions: the user's rules apply all the same."""

    denies: bool  # False if the user must be asked instead
    reason: str


# When the model receives a tool's results although no value of the user's data may be sent. Otherwise it receives only
# their size.
# "always": the tool observes `ToolContext.schema_only`, or its results contain no values.
# "of code files": if all files that the call touched contain code.
WithoutValues = Literal["always", "of code files", "never"]


class Tool(ABC, Generic[A]):
    """A tool that the model can call. See `vibe_jupyter.tools.grep` for a small complete example.

    Subclasses set the attributes, implement the abstract methods, and override what else doesn't suit them.
    """

    name: str  # letters, digits, ``_`` and ``-``, at most 64
    description: str  # a few lines for the model: what the tool does, when to use it, and what it returns
    arguments: type[A]  # from which the schema sent to the model is generated
    level: Level = "ask"  # permission level if the settings don't define one
    others: Sequence[str] = ()  # alternative names in settings
    # Names shared with other tools. Rules that deny them apply; rules that allow them don't.
    unclear: Sequence[str] = ()
    without_values: WithoutValues = "never"
    result_limit: int = RESULT_LIMIT  # characters of a result that the model receives in full
    may_lose: bool = False  # whether calls may change variables that undo would not restore
    tried_in: str = ""  # name of the isolated environment of `explore`, such as ``a sandbox``

    @abstractmethod
    def headline(self, args: A) -> Headline:
        """Return the call in one line."""

    @abstractmethod
    def preview(self, args: A) -> Preview:
        """Return everything the call will do, for the approval card."""

    @abstractmethod
    def touches(self, args: A) -> Sequence[Resource]:
        """Return the resources that the call reads, writes or executes. Must not open or decide anything."""

    @abstractmethod
    async def run(self, args: A, context: ToolContext) -> ToolResult:
        """Carry out the call.

        Raises:
            ToolError: the call failed. The model reads the message and can try something else.
        """

    def is_harmless(self, args: A) -> bool:
        """Return whether this call runs without approval where the tool is at level ``ask``."""
        return False

    async def restriction(self, args: A) -> Restriction | None:
        """Return what the tool's own code says against this call, or None."""
        return None

    async def precheck(self, args: A) -> None:
        """Check whether the call is possible, so that the user isn't asked for nothing. Called only before asking.

        Raises:
            ToolError: the call can't be done. The message is for the model.
        """

    async def look(self, args: A) -> None:
        """Read the current content for `preview`, if it depends on content that may change while its card is open.

        Raises:
            ToolError: it can't be read.
        """

    async def wait_for_change(self, args: A) -> None:
        """Return when that content may have changed. Never returns if there are no change notifications."""
        await asyncio.Event().wait()

    def can_explore(self, args: A) -> bool:
        """Return whether this call may be tried without side effects, so that no approval is needed."""
        return False

    async def explore(self, args: A, context: ToolContext) -> ToolResult | NotExplored:
        """Run the call without side effects, or return why that is not possible.

        Raises:
            ToolError: as for `run`.
        """
        return NotExplored(f"{self.name} can't be tried")

    def can_foresee(self, args: A) -> bool:
        """Return whether the effect of this call can be predicted, for its card."""
        return False

    async def foresee(self, args: A, context: ToolContext, *, tries: bool) -> str:
        """Return one line on what the call would change, and what of that can't be undone, or "" if unknown. Takes a
        few seconds at most.

        Args:
            args: arguments of the call.
            context: context of the call.
            tries: whether the call may be tried without side effects. If not, the line covers only what can't be
                undone.

        Raises:
            ToolError: the user interrupted the call.
        """
        return ""


_NAMED: Final = 6  # variables listed by name


def lost_words(names: Sequence[str]) -> str:
    """Describe variables that undo would not restore, or return ""."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"undo would not restore {', '.join(names[:_NAMED])}{more}" if names else ""


class Toolset(Protocol):
    """A set of tools."""

    def specs(self) -> Sequence[ToolSpec]:
        """Return the definitions offered to the model, in a stable order."""
        ...

    def find(self, name: str) -> Tool[Any] | None:
        """Return the tool with this name, or None."""
        ...


class StaticToolset:
    """A fixed list of tools. Schemas are generated once, on first use."""

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
    """Build a tool's definition for the model from its pydantic arguments.

    Every request includes it, so titles, class docstrings, bounds (a violation is explained in the result) and trivial
    defaults are removed. Nested definitions are kept.
    """
    schema = _lean_schema(schema_of(tool.arguments))
    assert isinstance(schema, dict)
    schema.pop("description", None)
    schema.setdefault("properties", {})
    schema["additionalProperties"] = False
    _drop_unused(schema)
    return ToolSpec(name=tool.name, description=tool.description, parameters=schema)


class _QuietSchema(GenerateJsonSchema):
    """Schema generator that silently omits defaults without a JSON form, such as a class, instead of warning in the
    user's cell."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Ignore the warning."""


def schema_of(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    with without_plugins():
        return arguments.model_json_schema(schema_generator=_QuietSchema)


def _lean_schema(node: JsonValue, *, names: bool = False) -> JsonValue:
    """Remove keywords of little use to a model.

    `names` is True if the keys are property names, which may equal such keywords.
    """
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
    """Remove definitions that only unlisted fields refer to, and class docstrings."""
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
    """Simplify ``X or null, default null`` to an optional ``X``."""
    kinds = node.get("anyOf")
    if not isinstance(kinds, list) or "default" not in node or node["default"] is not None:
        return node
    others = [kind for kind in kinds if kind != {"type": "null"}]
    if len(others) != 1 or not isinstance(others[0], dict):
        return node
    return {**others[0], **{key: value for key, value in node.items() if key != "anyOf"}}


class FilteredToolset:
    """A toolset without the tools that the user disabled. Verdicts are cached by name."""

    def __init__(
        self, tools: Toolset, keep: Callable[[str], bool], *, forbids: Callable[[str], bool] = lambda _name: False
    ) -> None:
        """Wrap a toolset.

        Args:
            tools: the toolset.
            keep: whether there is a tool of this name at all.
            forbids: whether it may never run. Such a tool isn't offered, but a call of it is found, so that the
                permissions reject it with their reason.
        """
        self._tools = tools
        self._keep = functools.lru_cache(JUDGED_NAMES)(keep)
        self._forbids = functools.lru_cache(JUDGED_NAMES)(forbids)

    def specs(self) -> Sequence[ToolSpec]:
        return [spec for spec in self._tools.specs() if self._keep(spec.name) and not self._forbids(spec.name)]

    def find(self, name: str) -> Tool[Any] | None:
        return self._tools.find(name) if self._keep(name) else None


class BriefToolset:
    """A toolset with one-sentence descriptions, without usage instructions."""

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
    """Several toolsets combined. For duplicate names the first set wins."""

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
    """Base of all tools' options. Frozen, and rejects unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ToolDefinition(NamedTuple):
    """Definition of a custom tool."""

    name: str
    description: str
    arguments: type[BaseModel]
    # Returns the result, an awaitable of it, or an async iterator of progress that ends with the result
    call: Callable[[BaseModel, ToolContext], Any]
    source: str  # where it is defined, for the user
    result: type[BaseModel] | None = None  # model that results must match, if declared
    check: Callable[[BaseModel], Any] | None = None  # the tool's own permission check, if it has one


def checked_name(name: str) -> str:
    """Validate a tool's name and return it.

    Raises:
        ConfigError: the name is invalid or taken. The message is the reason.
    """
    if name in BUILT_IN or name.startswith("mcp__"):
        raise ConfigError(f"There is a tool {name} already. Give yours another name: @vibe_jupyter.tool(name=…).")
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"{name!r} is not a valid tool name: letters, digits, _ and - only, at most 64.")
    return name


def description_of(words: str, prompt: str | None) -> str:
    """Return the tool's prompt if it has one, else its description, shortened."""
    return head_and_tail((prompt or "").strip() or words.strip(), LONGEST_DESCRIPTION)


_here: Final[dict[str, ToolDefinition]] = {}
_collecting: Final[ContextVar[list[ToolDefinition] | None]] = ContextVar("collecting", default=None)


def register_tool(definition: ToolDefinition) -> None:
    """Offer a tool from the next request on, or pass it to the enclosing `collect_tools`."""
    collected = _collecting.get()
    if collected is None:
        _here[definition.name] = definition
    else:
        collected.append(definition)


def registered_tools() -> tuple[ToolDefinition, ...]:
    """Return the tools defined in cells and imported modules."""
    return tuple(_here.values())


@contextmanager
def collect_tools() -> Generator[list[ToolDefinition]]:
    """Collect tools defined inside the block instead of offering them."""
    collected: list[ToolDefinition] = []
    token = _collecting.set(collected)
    try:
        yield collected
    finally:
        _collecting.reset(token)
