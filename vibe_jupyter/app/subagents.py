"""The sub-agents of a run: each with its profile's settings, as far as they narrow those of the agent it works for."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from vibe_jupyter.agent.agent import Agent, Subagent
from vibe_jupyter.agent.limits import PriceLimit, RunLimit, TimeLimit, TokenLimit
from vibe_jupyter.agent.middleware import ContextWarning, Middleware
from vibe_jupyter.app.instructions import SubagentTerms
from vibe_jupyter.app.models import ModelChoice
from vibe_jupyter.app.project import CurrentSettings, KernelSettings
from vibe_jupyter.app.run_rules import RunRules
from vibe_jupyter.config import Settings, SettingsReading
from vibe_jupyter.config.agents import PLAN_TOOL, AgentProfile
from vibe_jupyter.errors import ConfigError, ToolError
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.llm.request import Model
from vibe_jupyter.options import Options
from vibe_jupyter.permissions.decide import level_under, tool_names
from vibe_jupyter.tools.contract import TASK, FilteredToolset

NOT_OFFERED: Final = frozenset({TASK, "ask_user_question", PLAN_TOOL})
"""Tools of the main agent alone: a sub-agent delegates nothing further, and has no user to talk to."""
_SHARED_LIMITS: Final[Mapping[str, type[RunLimit]]] = {
    "max_price": PriceLimit,
    "max_tokens": TokenLimit,
    "max_seconds": TimeLimit,
}
"""Limits of a run that its sub-agents draw on too, by the key with which a profile sets one of its own."""
_ROLE: Final = (
    "You are the sub-agent {name}{about}. Another agent gave you the task below and gets everything you say. Nobody "
    "answers questions. End with a complete answer: names, numbers and places, not what you did."
)

WritePrompt = Callable[[SubagentTerms], str]
"""The system prompt of a sub-agent; raises `ConfigError` where its settings name none that exists."""


class Subagents:
    """Made when one is called: most runs call none."""

    def __init__(self, setup: KernelSettings, rules: RunRules, models: ModelChoice, main_thread: MainThread) -> None:
        self._setup = setup
        self._rules = rules
        self._models = models
        self._main_thread = main_thread

    async def find(self, name: str, agent: Agent, current: CurrentSettings, write_prompt: WritePrompt) -> Subagent:
        """The one of this name that may work for the agent of a run with these settings.

        Raises:
            ToolError: there is none, or the settings forbid it; says why.
        """
        return await self._main_thread.call(lambda: self._find(name, agent, current, write_prompt))

    def _find(self, name: str, agent: Agent, current: CurrentSettings, write_prompt: WritePrompt) -> Subagent:
        _check_delegation(current.reading)
        try:
            profile = current.profiles.subagent(name)
            reading = self._setup.under(current, profile)
            model = agent.model
            if "active_model" in profile.overrides.table:
                model = self._models.current(reading.settings.active_model, settings=reading.settings)
            tools = FilteredToolset(
                agent.tools,
                lambda tool: tool not in NOT_OFFERED and reading.leaves_tool(tool),
                forbids=reading.forbids_tool,
            )
            names = frozenset(spec.name for spec in tools.specs())
            instructions = write_prompt(SubagentTerms(profile, reading.settings, model, names))
        except ConfigError as error:
            raise ToolError(str(error)) from error

        about = f", {profile.description}" if profile.description else ""
        shared = [one for one in agent.middleware if isinstance(one, tuple(_SHARED_LIMITS.values()))]
        works = agent._replace(
            name=profile.name,
            model=model,
            tools=tools,
            middleware=[*shared, *self._own_rules(profile, reading.settings, model)],
            instructions=f"{instructions}\n\n{_ROLE.format(name=profile.name, about=about)}",
            find_subagent=None,
        )
        rules = reading.rules.within(current.reading.rules)
        return Subagent(works, rules.levels, rules.only_reads)

    def _own_rules(self, profile: AgentProfile, settings: Settings, model: Model) -> Sequence[Middleware]:
        """Beside the limits that it shares with its caller, which may be those of one cell."""
        theirs = tuple(kind for key, kind in _SHARED_LIMITS.items() if key not in profile.overrides.table)
        rules = self._rules.middleware(settings, Options(), model)
        return [one for one in rules if not isinstance(one, (ContextWarning, *theirs))]


def _check_delegation(reading: SettingsReading) -> None:
    """Custom tools delegate too, so what is said of the tool `task` holds for them.

    Raises:
        ToolError: it is not offered, or never allowed.
    """
    never = level_under(tool_names(TASK), reading.rules.levels, reading.settings.levels()) == "never"
    if never or not reading.offers_tool(TASK):
        why = "permission = never" if never else "not among the agent's tools"
        raise ToolError(f"No sub-agent works here: the settings forbid the tool {TASK} ({why}). Do it without one.")
