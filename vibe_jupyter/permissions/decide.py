"""Decide whether a call may run, from the tool's level and lists, the user's grants, and the resources it accesses.

For a call that needs approval, also assess its risk and describe each part of it (`weigh_call`).
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
    Tool,
)

if TYPE_CHECKING:
    from vibe_jupyter.hooks.runner import CommandHooks

_SHOWN = ("url", "read")
# Why a call needs approval, as shown on the card.
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
RUN_CELL = "run_cells"  # the tool whose permission every call that runs cells needs
_ONLY_READS: Final = (
    'Not run: this agent only reads (safety = "safe"), and {name} may have effects. Nothing can allow it here; say '
    "what should be changed, so that the user can choose another agent for it."
)
_NOT_OUTSIDE: Final = (
    'Not run: {path} is outside the project, and the user\'s settings forbid that (outside_workdir = "deny"). '
    "Use paths inside the project."
)
_ONLY_IN_SANDBOX: Final = "may only run in the sandbox here, where nothing stays"
# Accesses that a grant for the whole project may cover. None of them runs code.
_KEEPABLE: Final = frozenset(
    {("path", "read"), ("path", "write"), ("cell", "write"), ("variable", "read"), ("memory", "write")}
)


class ToolNames(NamedTuple):
    """Names of a tool in settings. An ambiguous name grants nothing, but restrictions under it apply."""

    own: tuple[str, ...]  # names under which permissions are granted
    all: tuple[str, ...]  # names under which permissions are denied


def tool_names(tool: Tool[Any] | str) -> ToolNames:
    """Return the names of a tool, its current name first."""
    if isinstance(tool, str):
        return ToolNames((tool,), (tool,))
    own = (tool.name, *tool.others)
    return ToolNames(own, (*own, *tool.unclear))


def level_under(names: ToolNames, *levels: Mapping[str, Level]) -> Level | None:
    """Return the level in the first of these mappings that defines one. ``never`` in any of them takes precedence."""
    if any(one.get(name) == "never" for one in levels for name in names.all):
        return "never"
    return next((one[name] for one in levels for name in names.own if name in one), None)


def argument_texts(args: object) -> tuple[str, ...]:
    """Return the arguments of an MCP tool as ``name=value`` texts. Empty for other tools."""
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
    """Conditions that affect the decisions of a single run."""

    attended: bool = True  # False if nobody can approve: calls that would ask are denied
    # Checks, at the first question, whether somebody can approve; None if `attended` is final
    presence: Callable[[], Awaitable[bool]] | None = None
    allowed: frozenset[str] = frozenset()  # tools that run without approval, from ``--yes``
    # Levels of the agent profile, which take precedence, except over ``never`` in the settings
    levels: Mapping[str, Level] = MappingProxyType({})
    external: bool = False  # True for calls of an external client, to which --yes and the like don't apply
    # ``auto_approve``: skip approvals required by a tool's level. Protected places, deny lists and ``never`` still
    # apply.
    approve_all: bool = False
    # True for an agent with ``safety = "safe"``: nothing with side effects may run, whatever else is allowed
    only_reads: bool = False
    # Returns why a tool with these names can't be called at this point of the run, whatever else is allowed, or "".
    bars: Callable[[Sequence[str]], str] | None = None


@dataclass(eq=False)
class CommandJudgement:
    """Verdict on the shell command of one call. Judged on first use, since it may take a while."""

    verdict: ShellVerdict | None = None
    is_made: bool = False

    def forget(self) -> None:
        """Judge again on next use: what the verdict depends on may have changed."""
        self.is_made = False


class _Accessed(NamedTuple):
    """What a call accesses."""

    resources: Sequence[Resource]
    places: Mapping[str, Located]
    judgement: CommandJudgement


class _Question(NamedTuple):
    """Everything that determines the decision on a call."""

    tool: str
    names: ToolNames
    lists: ToolLists
    levels: Mapping[str, Level]  # tools that must be allowed, with their levels
    resources: Sequence[Resource]
    places: Sequence[Located]
    texts: Sequence[str]  # arguments of an MCP tool, which declares no paths; empty for built-in tools
    command: ShellVerdict | None  # verdict on the shell command, if the call runs one

    @property
    def pattern(self) -> str | None:
        """The pattern that a grant would cover, or None if only a single approval is possible."""
        return self.command.remember_as if self.command is not None else "+".join(self.levels)

    @property
    def keepable(self) -> bool:
        """True if a grant may outlast the session."""
        if self.command is not None and not self.command.keepable:
            return False
        rest = [resource for resource in self.resources if resource.kind != "command"]
        return all((resource.kind, resource.access) in _KEEPABLE for resource in rest)


@dataclass(eq=False, repr=False)
class Permissions:
    """The user's rules: levels and lists from the settings, and grants."""

    workspace: Workspace
    # Levels from the settings that override the tools' own, by tool name
    levels: Mapping[str, Level] = field(default_factory=dict[str, Level])
    # Allowlists and denylists from the settings, by tool name
    lists: Mapping[str, ToolLists] = field(default_factory=dict[str, ToolLists])
    grants: Grants = field(default_factory=Grants)
    explore: bool = False  # True if calls may be tried without side effects, without asking
    # Whether a tool's calls are confined to the project, by tool name; "*" for all others.
    outside: Mapping[str, bool] = field(default_factory=dict[str, bool])
    hooks: "CommandHooks | None" = None  # the user's commands that can block or change calls; None for none

    def explores(
        self, tool: Tool[Any], args: BaseModel, terms: RunTerms, judgement: CommandJudgement | None = None
    ) -> bool:
        """Return whether a call that would ask may first be tried without side effects.

        Such a call reveals no more than the reading tools would, so it asks if one of these asks, is denied or is
        restricted. It also asks if the settings explicitly say ``ask`` for the tool, or if a command contains something
        that needs approval each time.
        """
        if not (tool.can_explore(args) and self.may_try(tool, terms)):
            return False
        lists = lists_under(tool_names(tool), self.lists)
        command = self._shell_verdict(lists, tool.touches(args), judgement or CommandJudgement())
        return command is None or (command.rule not in ONCE and command.rule != HIGH_RISK)

    def may_try(self, tool: Tool[Any], terms: RunTerms) -> bool:
        """Return whether a call's effect may be predicted by trying it without side effects, without asking."""
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
        self,
        tool: Tool[Any],
        args: BaseModel,
        terms: RunTerms,
        places: Mapping[str, Located] | None = None,
        judgement: CommandJudgement | None = None,
    ) -> Decision:
        """Decide a call. Runs nothing and opens none of the files it names.

        Args:
            tool: the called tool.
            args: its arguments.
            terms: conditions of this run.
            places: locations of its paths from the preparation of the call; None to resolve them now.
            judgement: verdict on its command, which is reused if it was made; None to judge it now.
        """
        resources = tool.touches(args)
        try:
            if places is None:
                places = places_of(args, self.workspace, (one.value for one in resources if one.kind == "path"))
        except ToolError as error:
            return Deny(reason=str(error))
        accessed = _Accessed(resources, places, judgement or CommandJudgement())
        question = self._question_of_call(tool, args, terms, accessed)
        return self._denied_by_rules(question, terms) or self._answer_question(question, terms)

    def grant(self, pattern: str, scope: Scope = "session") -> Scope:
        """Grant the pattern in `Ask.remember_as`. Returns the scope that was possible."""
        return self.grants.add(pattern, scope)

    def granted(self) -> tuple[str, ...]:
        """Return the grants of this session, sorted."""
        return self.grants.session()

    def forget(self) -> None:
        """Revoke all grants of this session."""
        self.grants.forget_session()

    def _question_of_call(self, tool: Tool[Any], args: BaseModel, terms: RunTerms, accessed: _Accessed) -> _Question:
        resources, places, judgement = accessed
        asks: Level = "ask"
        names = tool_names(tool)
        lists = lists_under(names, self.lists) if self.lists else ToolLists()
        levels: dict[str, Level] = {tool.name: self._call_level(tool, args, names, terms)}
        if any(resource.kind == "cell" and resource.access == "execute" for resource in resources):
            # Permission to edit a cell doesn't include running it.
            levels.setdefault(RUN_CELL, level_under(tool_names(RUN_CELL), terms.levels, self.levels) or asks)
        return _Question(
            tool=tool.name,
            names=names,
            lists=lists,
            levels=levels,
            resources=resources,
            texts=argument_texts(args),
            places=[places[resource.value] for resource in resources if resource.kind == "path"],
            command=self._shell_verdict(lists, resources, judgement),
        )

    def _call_level(self, tool: Tool[Any], args: BaseModel, names: ToolNames, terms: RunTerms) -> Level:
        level = level_under(names, terms.levels, self.levels) or tool.level
        return "always" if level == "ask" and tool.is_harmless(args) else level

    def _shell_verdict(
        self, lists: ToolLists, resources: Sequence[Resource], judgement: CommandJudgement
    ) -> ShellVerdict | None:
        commands = [resource.value for resource in resources if resource.kind == "command"]
        if not judgement.is_made:
            judgement.verdict = self._judge(commands, lists) if commands else None
            judgement.is_made = True
        return judgement.verdict

    def _judge(self, commands: Sequence[str], lists: ToolLists) -> ShellVerdict:
        try:
            with without_working_folder():
                # The shell grammar is loaded only if needed.
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
        """Return the path outside the project that the settings forbid. An allowlist may contain exceptions."""
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
            from vibe_jupyter.permissions.shell.judge import outside_path  # noqa: PLC0415 - already loaded for the verdict

        return outside_path(commands, self.workspace)

    def _is_listed(self, question: _Question) -> bool:
        """Return whether the allowlist covers everything the call accesses, so that the level doesn't matter."""
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
        """Return the rule that allows a tool without approval, or "".

        High risk requires a rule in the user's settings.
        """
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
    """Return why the user must approve each such call, whatever the levels are, or ""."""
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
    """Return the target of a path that contains symlinks, or ""."""
    said = Path(os.path.normpath(place.root / Path(place.given).expanduser()))
    return "" if said == place.path else f"{place.given} is {place.shown}"


def _shown_from_outside(resources: Sequence[Resource]) -> str:
    """Return why a cell that loads remote content when displayed needs approval, whatever its level, or ""."""
    others = [resource for resource in resources if (resource.kind, resource.access) != _SHOWN]
    addresses = [resource.value for resource in resources if resource not in others]
    if not addresses or not any(resource.kind == "cell" and resource.access == "write" for resource in others):
        return ""
    return f"{_resources_text(others)} · the page then loads {', '.join(addresses)}"


def _resources_text(resources: Iterable[Resource]) -> str:
    words = [REASONS.get((resource.kind, resource.access), "has effects") for resource in resources]
    return " · ".join(dict.fromkeys(words)) or "has effects"


ACTIONS_SHOWN: Final = 3  # effects named on a button


class ApprovalRisk(NamedTuple):
    """Risk assessment of a call, for its card."""

    risk: Risk = "medium"
    effects: tuple[Effect, ...] = ()  # one per part of a shell command; empty for other calls

    @property
    def label(self) -> str:
        """Label of the approval button. For high risk it names the effects."""
        actions = list(dict.fromkeys(effect.action for effect in self.effects if effect.risk == "high"))
        if self.risk != "high":
            return ALLOW_ONCE
        if not actions:
            return "Read secrets"
        shown = actions if len(actions) <= ACTIONS_SHOWN else [*actions[: ACTIONS_SHOWN - 1], "more"]
        text = " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
        return f"{text[:1].upper()}{text[1:]}"


def weigh_call(resources: Sequence[Resource], places: Mapping[str, Located], workspace: Workspace) -> ApprovalRisk:
    """Assess the risk of a call that asks.

    May count files for up to `MEASURING_SECONDS`, so call it on a worker thread.
    """
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
            # The shell grammar is loaded only if needed.
            from vibe_jupyter.permissions.shell.effects import explain_command, worst_risk  # noqa: PLC0415
    except ImportError:
        return ApprovalRisk()
    effects = [effect for command in commands for effect in explain_command(command, workspace, measure=True)]
    return ApprovalRisk(worst_risk(effects), tuple(Effect(**effect._asdict()) for effect in effects))
