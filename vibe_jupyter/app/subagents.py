"""Sub-agents of a run. Their profiles can only narrow the permissions of the calling agent."""

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

# Tools of the main agent only: a sub-agent can't delegate further and has no user to talk to.
NOT_OFFERED: Final = frozenset({TASK, "ask_user_question", PLAN_TOOL})
# Limits whose budget sub-agents share with their caller, keyed by the setting with which a profile sets a separate one.
_SHARED_LIMITS: Final[Mapping[str, type[RunLimit]]] = {
    "max_price": PriceLimit,
    "max_tokens": TokenLimit,
    "max_seconds": TimeLimit,
}
_ROLE: Final = (
    "You are the sub-agent {name}{about}. Another agent gave you the task below and gets everything you say. Nobody "
    "answers questions. End with a complete answer: names, numbers and places, not what you did."
)

# Returns a sub-agent's system prompt; raises `ConfigError` if its settings name a missing one.
WritePrompt = Callable[[SubagentTerms], str]


class Subagents:
    """Look-up of sub-agents. Created on first use, because most runs call none."""

    def __init__(self, setup: KernelSettings, rules: RunRules, models: ModelChoice, main_thread: MainThread) -> None:
        self._setup = setup
        self._rules = rules
        self._models = models
        self._main_thread = main_thread

    async def find(self, name: str, agent: Agent, current: CurrentSettings, write_prompt: WritePrompt) -> Subagent:
        """Return the sub-agent of this name, ready to work for `agent` under the current settings.

        Raises:
            ToolError: There is none, or the settings forbid it; the message says why.
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
        """Return the sub-agent's middleware, without the limits that it shares with its caller."""
        theirs = tuple(kind for key, kind in _SHARED_LIMITS.items() if key not in profile.overrides.table)
        rules = self._rules.middleware(settings, Options(), model)
        return [one for one in rules if not isinstance(one, (ContextWarning, *theirs))]


def _check_delegation(reading: SettingsReading) -> None:
    """Check that delegation is allowed. Custom tools delegate as well, so the permission of `task` applies to them.

    Raises:
        ToolError: `task` isn't offered, or its permission is "never".
    """
    never = level_under(tool_names(TASK), reading.rules.levels, reading.settings.levels()) == "never"
    if never or not reading.offers_tool(TASK):
        why = "permission = never" if never else "not among the agent's tools"
        raise ToolError(f"No sub-agent works here: the settings forbid the tool {TASK} ({why}). Do it without one.")
