"""May this call run? Decided from the tool's level and lists, the user's grants, and what the call touches.

Of a call that asks, also how much a yes to it weighs, and what each part of it does (`weigh_call`).
"""

import json
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import pydantic
from pydantic import BaseModel, JsonValue

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.path_arguments import places_of
from vibe_jupyter.files.workspace import Located, Workspace
from vibe_jupyter.permissions.grants import Grants, Scope
from vibe_jupyter.permissions.places import place_reason
from vibe_jupyter.permissions.rules import ToolLists, lists_under
from vibe_jupyter.permissions.shell import HIGH_RISK, ONCE, ShellVerdict
from vibe_jupyter.protocol import ALLOW_ONCE, Allow, Ask, Decision, Deny, Effect, Level, Resource, Risk
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.contract import (
    FORMER_NAMES,
    READING_TOOLS,
    WITHOUT_EFFECTS,
    ExploringTool,
    GradedTool,
    RenamedTool,
    Tool,
)

if TYPE_CHECKING:
    from vibe_jupyter.hooks.runner import CommandHooks

_SHOWN = ("url", "read")
REASONS = {
    ("code", "execute"): "runs code in this kernel",
    ("command", "execute"): "runs a shell command",
    ("cell", "execute"): "runs code",
    ("cell", "write"): "changes your notebook",
    ("path", "write"): "writes a file",
    ("path", "read"): "reads a file",
    ("variable", "read"): "looks at a variable",
    _SHOWN: "loads an address",
    ("mcp", "execute"): "calls an outside tool",
    ("tool", "execute"): "runs a tool that is not part of vibe-jupyter",
    ("memory", "write"): "changes what is remembered about this project",
}
"""Why a call asks, in the words of the card."""
RUN_CELL = "run_cells"
"""The tool whose permission every call needs that runs cells."""
_ONLY_READS: Final = (
    'Not run: this agent only reads (safety = "safe"), and {name} may have effects. Nothing can allow it here; say '
    "what should be changed, so that the user can choose another agent for it."
)
_NOT_OUTSIDE: Final = (
    'Not run: {path} is outside the project, and the user\'s settings forbid that (outside_workdir = "deny"). '
    "Use paths inside the project."
)
_ONLY_IN_SANDBOX: Final = "may only run in the sandbox here, where nothing stays"
_KEEPABLE: Final = frozenset(
    {("path", "read"), ("path", "write"), ("cell", "write"), ("variable", "read"), ("memory", "write")}
)
"""What a grant for a whole project may cover: nothing that runs code."""


class ToolNames(NamedTuple):
    """A name that may mean another tool too gives nothing, and takes all the same."""

    own: tuple[str, ...]
    """What a permission is given to."""
    all: tuple[str, ...]
    """What one is taken from."""


def tool_names(tool: Tool[Any] | str) -> ToolNames:
    """Its own first."""
    if isinstance(tool, str):
        return ToolNames((tool,), (tool,))
    own = (tool.name, *(tool.others if isinstance(tool, RenamedTool) else ()))
    return ToolNames(own, (*own, *(tool.unclear if isinstance(tool, RenamedTool) else ())))


def level_under(names: ToolNames, *levels: Mapping[str, Level]) -> Level | None:
    """The level of the first of these settings that has one; ``never`` counts wherever it stands."""
    if any(one.get(name) == "never" for one in levels for name in names.all):
        return "never"
    return next((one[name] for one in levels for name in names.own if name in one), None)


def argument_texts(args: object) -> tuple[str, ...]:
    """Each value in the arguments of a server's tool as ``name=value``; nothing for the arguments of another tool."""
    if not isinstance(args, pydantic.RootModel):
        return ()
    return tuple(_argument_texts(cast("pydantic.RootModel[JsonValue]", args).root, ""))


def _argument_texts(node: JsonValue, place: str) -> Iterator[str]:
    if isinstance(node, dict | list):
        entries = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in entries:
            yield from _argument_texts(value, f"{place}.{key}" if place else str(key))
    else:
        yield f"{place}={node if isinstance(node, str) else json.dumps(node)}"


class RunTerms(NamedTuple):
    """What holds for one run only."""

    attended: bool = True
    """False where nobody can approve: what would ask is denied."""
    presence: Callable[[], Awaitable[bool]] | None = None
    """Finds out, at the first question, whether anyone can approve; None where `attended` says it."""
    allowed: frozenset[str] = frozenset()
    """Tools that run without asking, from ``--yes``."""
    levels: Mapping[str, Level] = MappingProxyType({})
    """A profile's own levels; they win, but for what the settings forbid."""
    external: bool = False
    """Whether an external client asks, which no option of a run can allow anything."""
    approve_all: bool = False
    """``auto_approve``: what would ask because of its level runs; places, deny lists and ``never`` still hold."""
    only_reads: bool = False
    """Whether nothing with effects may run, whatever else is allowed: of an agent with ``safety = "safe"``."""
    bars: Callable[[Sequence[str]], str] | None = None
    """Why a tool that goes by these names cannot be called at this moment of the run, whatever else is allowed; empty
    where it can."""


class _Question(NamedTuple):
    """What a call needs, before anybody is asked."""

    tool: str
    names: ToolNames
    lists: ToolLists
    levels: Mapping[str, Level]
    """The tools that must be allowed, with their levels."""
    resources: Sequence[Resource]
    places: Sequence[Located]
    texts: Sequence[str]
    """The arguments of a tool that says no places; none for a tool of ours."""
    command: ShellVerdict | None
    """The verdict on its shell command; None if it runs none."""

    @property
    def pattern(self) -> str | None:
        """What a grant would cover; None where only a single approval may be given."""
        return self.command.remember_as if self.command is not None else "+".join(self.levels)

    @property
    def keepable(self) -> bool:
        """Whether a grant may outlast the session."""
        if self.command is not None and not self.command.keepable:
            return False
        rest = [resource for resource in self.resources if resource.kind != "command"]
        return all((resource.kind, resource.access) in _KEEPABLE for resource in rest)


@dataclass(eq=False, repr=False)
class Permissions:
    """The user's rules: levels and lists from the configuration, and what was granted."""

    workspace: Workspace
    levels: Mapping[str, Level] = field(default_factory=dict[str, Level])
    """Tool name to level, where the configuration says more than the tool's own."""
    lists: Mapping[str, ToolLists] = field(default_factory=dict[str, ToolLists])
    """Tool name to its allowlist and denylist, where the configuration has some."""
    grants: Grants = field(default_factory=Grants)
    explore: bool = False
    """Whether calls may be tried, unasked, where they can have no effects."""
    outside: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Tool name to whether its calls may not reach outside the project; "*" for tools that are not named."""
    hooks: "CommandHooks | None" = None
    """The user's commands that judge calls before and after they run; None where there are none."""

    def explores(self, tool: Tool[Any], args: BaseModel, terms: RunTerms) -> bool:
        """Whether a call that would ask may first be tried where it can have no effects.

        What it tells is what the tools that read would tell: where one of these asks, is denied or limited, it asks. So
        does a tool for which the settings say ``ask`` in so many words, and a command that names what is asked about
        each time.
        """
        if not (isinstance(tool, ExploringTool) and tool.can_explore(args) and self.may_try(tool, terms)):
            return False
        command = self._shell_verdict(lists_under(tool_names(tool), self.lists), tool.touches(args))
        return command is None or (command.rule not in ONCE and command.rule != HIGH_RISK)

    def may_try(self, tool: Tool[Any], terms: RunTerms) -> bool:
        """Whether what a call would do may be found out, unasked, where it can have no effects."""
        if not self.explore or terms.external:
            return False
        reading = (level_under(tool_names(name), terms.levels, self.levels) for name in READING_TOOLS)
        lists = [lists_under(tool_names(name), self.lists) for name in READING_TOOLS]
        limited = any(one.deny or one.ask for one in lists)
        own = tool_names(tool)
        level = level_under(own, terms.levels, self.levels)
        is_set = level not in (None, "sandbox") or lists_under(own, self.lists).deny
        return not is_set and not limited and all(level in (None, "always") for level in reading)

    def decide(
        self, tool: Tool[Any], args: BaseModel, terms: RunTerms, places: Mapping[str, Located] | None = None
    ) -> Decision:
        """Decide one call. Runs nothing and opens none of the files it names.

        Args:
            tool: what is called.
            args: with what.
            terms: what holds for this run.
            places: where its paths lead, as the call was prepared; None to resolve them now.
        """
        resources = tool.touches(args)
        try:
            if places is None:
                places = places_of(args, self.workspace, (one.value for one in resources if one.kind == "path"))
        except ToolError as error:
            return Deny(reason=str(error))
        question = self._question_of_call(tool, args, terms, resources, places)
        return self._denied_by_rules(question, terms) or self._answer_question(question, terms)

    def grant(self, pattern: str, scope: Scope = "session") -> Scope:
        """Allow what `Ask.remember_as` named; returns the scope that could be given."""
        return self.grants.add(pattern, scope)

    def granted(self) -> tuple[str, ...]:
        """What was granted for this session, sorted."""
        return self.grants.session()

    def forget(self) -> None:
        """Take back every session grant."""
        self.grants.forget_session()

    def _question_of_call(
        self,
        tool: Tool[Any],
        args: BaseModel,
        terms: RunTerms,
        resources: Sequence[Resource],
        places: Mapping[str, Located],
    ) -> _Question:
        asks: Level = "ask"
        names = tool_names(tool)
        lists = lists_under(names, self.lists) if self.lists else ToolLists()
        levels: dict[str, Level] = {tool.name: self._call_level(tool, args, names, terms)}
        if any(resource.kind == "cell" and resource.access == "execute" for resource in resources):
            # Who may edit may not yet run.
            levels.setdefault(RUN_CELL, level_under(tool_names(RUN_CELL), terms.levels, self.levels) or asks)
        return _Question(
            tool=tool.name,
            names=names,
            lists=lists,
            levels=levels,
            resources=resources,
            texts=argument_texts(args),
            places=[places[resource.value] for resource in resources if resource.kind == "path"],
            command=self._shell_verdict(lists, resources),
        )

    def _call_level(self, tool: Tool[Any], args: BaseModel, names: ToolNames, terms: RunTerms) -> Level:
        level = level_under(names, terms.levels, self.levels) or tool.level
        return tool.level_of(args) if level == "ask" and isinstance(tool, GradedTool) else level

    def _shell_verdict(self, lists: ToolLists, resources: Sequence[Resource]) -> ShellVerdict | None:
        commands = [resource.value for resource in resources if resource.kind == "command"]
        if not commands:
            return None
        try:
            with without_working_folder():
                # Its grammars only where they are needed.
                from vibe_jupyter.permissions.shell.judge import judge_all  # noqa: PLC0415
        except ImportError as error:
            return ShellVerdict("ask", "grammar", f"it cannot be judged, since {error.name} cannot be loaded: {error}")

        return judge_all(commands, self.workspace, lists.for_shell())

    def _denied_by_rules(self, question: _Question, terms: RunTerms) -> Deny | None:
        forbidden = level_under(question.names, terms.levels) == "never"
        listed = not forbidden and self._is_listed(question)
        for name in question.levels:
            names = question.names.own if name == question.tool else (name,)
            if terms.bars is not None and (reason := terms.bars(names)):
                return Deny(reason=reason)
        for name, level in question.levels.items():
            excepted = listed and name == question.tool
            if level == "never" and not excepted:
                return Deny(reason=f"The user's settings do not allow the tool {name} (permission = never).")
            if terms.only_reads and name not in WITHOUT_EFFECTS and level != "sandbox":
                return Deny(reason=_ONLY_READS.format(name=name))
        if denied := self._denied_by_lists(question):
            return denied
        for name, level in question.levels.items():
            if level == "sandbox":
                return Deny(reason=f"Not run: {name} {_ONLY_IN_SANDBOX} (permission = sandbox).", in_sandbox=True)
        return None

    def _denied_by_lists(self, question: _Question) -> Deny | None:
        if question.command is not None and question.command.verdict == "deny":
            return Deny(reason=f"Not run: {question.command.reason}.")
        if question.lists.deny and (pattern := question.lists.denying(question.places, question.texts)):
            return Deny(reason=f"The user's settings do not allow {question.tool} there (denylist: {pattern}).")
        if (path := self._forbidden_outside(question)) is not None:
            return Deny(reason=_NOT_OUTSIDE.format(path=path))
        return None

    def _forbidden_outside(self, question: _Question) -> str | None:
        """The path outside the project that the settings forbid; an allowlist may name exceptions."""
        said = [self.outside[name] for name in question.names.all if name in self.outside]
        if not (any(said) if said else self.outside.get("*", False)):
            return None
        for place in question.places:
            if not place.inside and not question.lists.allows([place]):
                return place.given
        commands = [one.value for one in question.resources if one.kind == "command"]
        if not commands:
            return None
        with without_working_folder():
            from vibe_jupyter.permissions.shell.judge import outside_path  # noqa: PLC0415 - its verdict has loaded it

        return outside_path(commands, self.workspace)

    def _is_listed(self, question: _Question) -> bool:
        """Whether the allowlist names all that is touched: then the level does not count."""
        if question.command is not None:
            return question.command.rule == "allowlist"
        return bool(question.lists.allow) and question.lists.allows(question.places, question.texts)

    def _answer_question(self, question: _Question, terms: RunTerms) -> Decision:
        if place := _once_reason(question):
            return _ask_decision(place, question, terms, once=True)
        command = question.command
        rules = [self._rule_text(name, level, question, terms) for name, level in question.levels.items()]
        if command is not None and command.rule == "read-only" and len(rules) == 1:
            rules[0] = rules[0] or f"{command.rule}: {command.reason}"
        if all(rules):
            return Allow(rule=rules[0])
        return _ask_decision(_reasons_text(question), question, terms)

    def _rule_text(self, name: str, level: Level, question: _Question, terms: RunTerms) -> str:
        """What allows a tool without asking; empty if nothing does. High risk needs a setting of the user's own."""
        is_high = question.command is not None and question.command.rule == HIGH_RISK
        if not is_high and not terms.allowed.isdisjoint(question.names.own if name == question.tool else (name,)):
            return "--yes"
        if level == "always":
            return f"{name}: always"
        if terms.approve_all:
            return "auto_approve"
        if name == question.tool and self._is_listed(question):
            return f"{name}: allowlist"
        pattern = name if question.command is None else question.pattern
        patterns = (pattern, *FORMER_NAMES.get(pattern, ())) if pattern else ()
        grants = (self.grants.covers(one, keepable=question.keepable) for one in patterns)
        return next((f"{name}: {grant}" for grant in grants if grant), "")


def _once_reason(question: _Question) -> str:
    """Why a user must agree each time, whatever the levels say; empty if they need not."""
    operations = {resource.value: resource.access for resource in question.resources if resource.kind == "path"}
    for place in question.places:
        reason = place_reason(place, "write" if operations[place.given] == "write" else "read")
        if reason is not None:
            return reason.reason
    if pattern := question.lists.asking(question.places):
        return f"touches what the user's settings call sensitive ({pattern})"
    if question.command is not None and question.command.verdict == "ask" and question.command.rule in ONCE:
        return f"{REASONS['command', 'execute']}: {question.command.reason}"
    return _shown_from_outside(question.resources)


def _ask_decision(reason: str, question: _Question, terms: RunTerms, *, once: bool = False) -> Decision:
    pattern = None if once else question.pattern
    if terms.attended:
        return Ask(reason=reason, remember_as=pattern, keepable=pattern is not None and question.keepable)
    if once:
        return Deny(reason=f"Not run: it {reason}, and nobody is here to approve it.")
    setting = "in config.toml, " + " and ".join(f'[tools.{name}] permission = "always"' for name in question.levels)
    if question.command is not None and question.command.rule == HIGH_RISK:
        advice = f"{setting}; --yes and saved permissions do not cover it"
    elif terms.external:
        advice = f"{setting}, and then serve the notebook again"
    else:
        advice = f"with --yes={','.join(question.levels)} or, {setting}"
    denied = f"Not run: it {reason}, and nobody is here to approve it."
    return Deny(reason=f"{denied} The user can allow it in advance {advice}.")


def _reasons_text(question: _Question) -> str:
    text = " · ".join((_resources_text(question.resources), *filter(None, map(_led_elsewhere, question.places))))
    if question.command is not None and question.command.verdict == "ask":
        text += f": {question.command.reason}"
    return text


def _led_elsewhere(place: Located) -> str:
    """Where a path leads that goes through links; empty where it is what it says."""
    said = Path(os.path.normpath(place.root / Path(place.given).expanduser()))
    return "" if said == place.path else f"{place.given} is {place.shown}"


def _shown_from_outside(resources: Sequence[Resource]) -> str:
    """Why a cell asks, whatever its level, that makes the page load something as soon as it is shown."""
    others = [resource for resource in resources if (resource.kind, resource.access) != _SHOWN]
    addresses = [resource.value for resource in resources if resource not in others]
    if not addresses or not any(resource.kind == "cell" and resource.access == "write" for resource in others):
        return ""
    return f"{_resources_text(others)} · the page then loads {', '.join(addresses)}"


def _resources_text(resources: Iterable[Resource]) -> str:
    words = [REASONS.get((resource.kind, resource.access), "has effects") for resource in resources]
    return " · ".join(dict.fromkeys(words)) or "has effects"


ACTIONS_SHOWN: Final = 3
"""Effects that the label of a button names."""


class ApprovalRisk(NamedTuple):
    """What a card says of a call."""

    risk: Risk = "medium"
    effects: tuple[Effect, ...] = ()
    """One for each part of a shell command; none for other calls."""

    @property
    def label(self) -> str:
        """What the button for yes says: of a call that weighs high, what it does."""
        actions = list(dict.fromkeys(effect.action for effect in self.effects if effect.risk == "high"))
        if self.risk != "high":
            return ALLOW_ONCE
        if not actions:
            return "Read secrets"
        shown = actions if len(actions) <= ACTIONS_SHOWN else [*actions[: ACTIONS_SHOWN - 1], "more"]
        text = " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
        return f"{text[:1].upper()}{text[1:]}"


def weigh_call(resources: Sequence[Resource], places: Mapping[str, Located], workspace: Workspace) -> ApprovalRisk:
    """What a call that asks weighs. It may count files, which takes up to `MEASURING_SECONDS`: call it on a thread."""
    commands = [one.value for one in resources if one.kind == "command"]
    if commands:
        return _weigh_commands(commands, workspace)
    read = [places[one.value] for one in resources if one.kind == "path" and one.access == "read"]
    if any(place.protection("read") is not None for place in read):
        return ApprovalRisk("high")
    only_reads = bool(resources) and all(one.access == "read" and one.kind in ("path", "variable") for one in resources)
    return ApprovalRisk("low" if only_reads else "medium")


def _weigh_commands(commands: Sequence[str], workspace: Workspace) -> ApprovalRisk:
    try:
        with without_working_folder():
            # Its grammar only where it is needed.
            from vibe_jupyter.permissions.shell.effects import explain_command, worst_risk  # noqa: PLC0415
    except ImportError:
        return ApprovalRisk()
    effects = [effect for command in commands for effect in explain_command(command, workspace, measure=True)]
    return ApprovalRisk(worst_risk(effects), tuple(Effect(**effect._asdict()) for effect in effects))
