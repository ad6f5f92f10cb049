"""`%vibe context` and `%vibe compact`: show and reduce what the next request sends."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.agent.context_size import (
    CONTEXT_PARTS,
    SHORTEN_SHARE,
    ContextMeter,
    ContextPart,
    ContextSize,
    count_message,
    count_messages,
    count_text,
    count_tools,
)
from vibe_jupyter.agent.loop import start_compaction
from vibe_jupyter.agent.middleware import AutoCompact, compact_at
from vibe_jupyter.app.kernel_parts import ContextParts
from vibe_jupyter.app.run_view import BegunRun
from vibe_jupyter.app.sessions import kept_in
from vibe_jupyter.context.situation import Surroundings
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files.truncation import cut_line
from vibe_jupyter.options import Options
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.protocol import (
    HistoryEdit,
    HistoryRewritten,
    ImagePart,
    Message,
    ToolMessage,
    UserMessage,
    is_prompt,
    prompt_text,
)
from vibe_jupyter.session.conversation import Conversation, check_history, rewrite_history
from vibe_jupyter.ui.front_end import EVERYTHING

NOWHERE: Final = Surroundings("")
NONE_YET: Final = "There is no conversation yet."
_WORDS: Final = 60  # characters shown of a prompt
_LISTED: Final = 20  # number of latest exchanges listed


class HistoryExchange(NamedTuple):
    """A prompt and all messages up to the next prompt."""

    at: int  # index of its first message in the history
    messages: tuple[Message, ...]

    @property
    def words(self) -> str:
        """Beginning of the prompt."""
        first = self.messages[0]
        return cut_line(" ".join(prompt_text(first).split()), _WORDS) if isinstance(first, UserMessage) else ""


class ContextCommands:
    """Context commands of one kernel. Main thread only."""

    def __init__(self, parts: ContextParts) -> None:
        self._parts = parts

    def show(self) -> str:
        """Report the size of the next request by part, and list the exchanges in it."""
        conversation = self._parts.conversation()
        if conversation is None:
            return NONE_YET
        agent = self._next_agent()
        size = _next_size(conversation, agent)
        lines = [_size_line(size, agent), *_part_lines(conversation.history, agent), *_limit_lines(size, agent)]
        exchanges = find_exchanges(conversation.history)
        if exchanges:
            lines.append("Exchanges that are sent; %vibe context drop N leaves one out:")
            numbered = list(enumerate(exchanges, 1))
            lines += [f"  … {len(numbered) - _LISTED} earlier"] if len(numbered) > _LISTED else []
            lines += [
                f"  {number:>3}  {count_messages(one.messages):>9,} tokens  {one.words}"
                for number, one in numbered[-_LISTED:]
            ]
        return "\n".join(lines)

    def measure(self) -> tuple[ContextSize, Mapping[ContextPart, int]] | None:
        """Measure the next request, in total and by part. Returns None before the first prompt.

        Raises:
            ConfigError: No model, or an invalid setting.
        """
        conversation = self._parts.conversation()
        if conversation is None:
            return None
        agent = self._next_agent()
        return _next_size(conversation, agent), _part_counts(conversation.history, agent)

    def drop(self, number: int) -> str:
        """Remove an exchange from future requests; the journal retains it. Returns the message to print.

        Raises:
            ConfigError: No exchange has that number.
            NotebookError: A run is active.
        """
        self._parts.run_view.check_free()
        conversation = self._parts.conversation()
        history = conversation.history if conversation is not None else ()
        exchanges = find_exchanges(history)
        if conversation is None or not 1 <= number <= len(exchanges):
            raise ConfigError(f"There is no exchange {number}. %vibe context lists them.")
        chosen, agent = exchanges[number - 1], self._next_agent()
        before = _next_size(conversation, agent).tokens
        freed = count_messages(chosen.messages, sees_images=agent.model.sees_images)
        event = HistoryRewritten(
            kind="dropped",
            length=len(history),
            edits=(HistoryEdit(at=chosen.at, length=len(chosen.messages)),),
            tokens_before=before,
            tokens_after=max(0, before - freed),
            carried=conversation.carried,
        )
        check_history(rewrite_history(history, event))
        self._parts.kernel.engine.submit(conversation.record(event)).result()
        self._parts.report.begin_again()
        return f"Exchange {number} is sent no more, about {freed:,} tokens less: {chosen.words}"

    def compact(self, instructions: str) -> str:
        """Summarize the conversation, displayed like a run.

        Returns the message to print, "" unless there was nothing to do.

        Raises:
            ConfigError: No model, or an invalid setting.
            NotebookError: A run is active.
        """
        self._parts.run_view.check_free()
        conversation = self._parts.conversation()
        if conversation is None or not conversation.history:
            return NONE_YET
        if conversation.schema_only != self._parts.setup.settings().privacy.schema_only:
            raise ConfigError("This conversation was held in another privacy mode. Your next prompt begins a new one.")
        around = self._parts.report.look("", frozenset())
        terms = RunTerms(presence=self._parts.run_view.attended)
        run = start_compaction(self._next_agent(around), conversation, instructions, terms=terms)
        self._parts.run_view.show(BegunRun(run, f"the conversation is {kept_in(conversation)}"), EVERYTHING)
        return ""

    def _next_agent(self, around: Surroundings = NOWHERE) -> Agent:
        """Build the agent for the next prompt, with the instructions as last sent."""
        parts = self._parts
        current = parts.setup.current(None)
        agent = parts.build_agent(Options(), current)

        async def report() -> str:
            return await parts.report.fresh(around, parts.permissions.levels, current, parts.kernel.main_thread)

        terms = parts.rules.compaction(current, agent.model, report)
        return agent._replace(instructions=parts.instructions.latest, compaction=terms)


def find_exchanges(history: Sequence[Message]) -> list[HistoryExchange]:
    """Split the history into exchanges. Messages before the first prompt belong to none."""
    places = [place for place, message in enumerate(history) if is_prompt(message)]
    ends = [*places[1:], len(history)]
    return [HistoryExchange(at, tuple(history[at:end])) for at, end in zip(places, ends, strict=False)]


def _next_size(conversation: Conversation, agent: Agent) -> ContextSize:
    return ContextMeter(conversation, agent.model, agent.instructions).size(agent.tools.specs)


def _size_line(size: ContextSize, agent: Agent) -> str:
    window = f"{size.window:,} tokens" + ("" if size.is_known else f" (the window of {agent.model.alias} is not known)")
    return f"Context: about {size.tokens:,} of {window}, {size.share:.0%}"


def _part_counts(history: Sequence[Message], agent: Agent) -> Mapping[ContextPart, int]:
    counts = Counter[ContextPart]()
    counts.update({"system": count_text(agent.instructions), "tools": count_tools(agent.tools.specs())})
    for message in history:
        counts.update(count_message(message, sees_images=agent.model.sees_images))
    return counts


def _part_lines(history: Sequence[Message], agent: Agent) -> list[str]:
    counts = _part_counts(history, agent)
    images = sum(
        isinstance(part, ImagePart)
        for message in history
        if isinstance(message, UserMessage | ToolMessage)
        for part in message.parts
    )
    return [
        f"  {part:<10}{counts[part]:>9,} tokens{f'  ({images})' if part == 'images' and images else ''}"
        for part in CONTEXT_PARTS
    ]


def _limit_lines(size: ContextSize, agent: Agent) -> list[str]:
    shorten = int(SHORTEN_SHARE * size.window)
    lines = [f"Old results and pictures are shortened from {shorten:,} tokens on."]
    thresholds = [one.threshold for one in agent.middleware if isinstance(one, AutoCompact)]
    limits = [limit for threshold in thresholds if (limit := compact_at(size.window, threshold))]
    lines.append(
        f"The conversation is compacted from {min(limits):,} tokens on; %vibe compact does it now."
        if limits
        else "The conversation is compacted by %vibe compact alone."
    )
    return lines
