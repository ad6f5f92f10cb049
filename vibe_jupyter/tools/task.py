"""The tool `task`: delegate work to a sub-agent with its own context, which returns one answer."""

from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.protocol import Headline, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.contract import TASK, Tool, ToolContext

DEFAULT_AGENT: Final = "explore"
RESPONSE_LIMIT: Final = 6_000  # characters of a sub-agent's answer


class TaskArgs(BaseModel):
    """Work for a sub-agent."""

    model_config = ConfigDict(extra="forbid")

    task: str = Field(min_length=1, description="All it must know: it sees nothing else.")
    agent: str = DEFAULT_AGENT


class TaskTool(Tool[TaskArgs]):
    """Runs a sub-agent and waits for it."""

    name = TASK
    description = (
        "A sub-agent does work of several steps and answers; for simple look-ups use read_file or grep. Calls in one "
        "answer run at once."
    )
    arguments = TaskArgs
    without_values = "always"

    def headline(self, args: TaskArgs) -> Headline:
        return Headline(
            verb="Ran sub-agent",
            doing="Running sub-agent",
            asking="Run sub-agent",
            target=args.agent,
            note=" ".join(args.task.split()),
        )

    def preview(self, args: TaskArgs) -> Preview:
        return Preview(kind="text", text=args.task, edits="task")

    def is_harmless(self, args: TaskArgs) -> bool:
        """Return whether the sub-agent only reads, as in Mistral Vibe."""
        return args.agent == DEFAULT_AGENT

    def touches(self, args: TaskArgs) -> Sequence[Resource]:
        return ()

    async def run(self, args: TaskArgs, context: ToolContext) -> ToolResult:
        report = await context.delegate(args.agent, args.task)
        turns = f"{report.turns_used} turn{'' if report.turns_used == 1 else 's'}"
        ended = f"completed in {turns}" if report.completed else f"interrupted after {turns}"
        ended += f" by its limit of {report.limit}" if report.limit else ""
        cost = "" if report.cost is None else f", ${report.cost:.4f}"
        lines = [head_and_tail(report.response, RESPONSE_LIMIT), f"({ended}{cost})"]
        if report.error:
            lines.insert(1, f"Error: {report.error}")
        return ToolResult(
            parts=(TextPart(text="\n".join(filter(None, lines))),),
            summary=ended,
            display={"text/markdown": report.response} if report.response else {},
            details={
                "response": report.response,
                "turns_used": report.turns_used,
                "completed": report.completed,
                "cost": report.cost,
            },
        )
