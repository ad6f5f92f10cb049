"""The tool `todo`: the agent's list of steps, visible to the user."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.errors import ToolError
from vibe_jupyter.protocol import (
    PLAN_MIME,
    Headline,
    Plan,
    PlanItem,
    PlanStatus,
    Preview,
    Resource,
    TextPart,
    ToolResult,
)
from vibe_jupyter.tools.contract import UNLISTED, Tool, ToolContext, ToolOptions

Status = Literal["pending", "in_progress", "completed", "cancelled"]
Priority = Literal["high", "medium", "low"]


class TodoOptions(ToolOptions):
    """Settings in ``[tools.todo]``."""

    max_todos: int = Field(default=100, ge=1)  # items in one list


class TodoItem(BaseModel):
    """One step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    content: str = Field(min_length=1)
    status: Status = "pending"
    id: str = Field(default="", json_schema_extra=UNLISTED)  # "" for its position in the list
    priority: Priority = Field(default="medium", json_schema_extra=UNLISTED)


class TodoArgs(BaseModel):
    """Look at the list, or replace it."""

    model_config = ConfigDict(extra="forbid")

    todos: list[TodoItem] | None = Field(default=None, description="Leave out to read the list.")
    # None: write if `todos` is given, else read
    action: Literal["read", "write"] | None = Field(default=None, json_schema_extra=UNLISTED)

    @property
    def writes(self) -> bool:
        """True if the call replaces the list."""
        return self.action == "write" or (self.action is None and self.todos is not None)


class TodoTool(Tool[TodoArgs]):
    """Stores one list per conversation. Touches neither files nor processes."""

    name = "todo"
    description = (
        "Your to-do list, which the user sees, for three steps or more. Each call replaces it; exactly one item "
        "in_progress; completed only when truly done."
    )
    level = "always"
    arguments = TodoArgs
    without_values = "always"

    def __init__(self, options: TodoOptions | None = None) -> None:
        self.options = options or TodoOptions()  # may be replaced; the list is kept
        self._items: tuple[TodoItem, ...] = ()

    def forget(self) -> None:
        """Clear the list for a new conversation."""
        self._items = ()

    def headline(self, args: TodoArgs) -> Headline:
        if not args.writes:
            return Headline(verb="Read", doing="Reading", asking="Read", target="", note="its list of steps")
        active = next((item.content for item in args.todos or () if item.status == "in_progress"), "")
        return Headline(verb="Planned", doing="Planning", asking="Plan", target="", note=active)

    def preview(self, args: TodoArgs) -> Preview:
        return Preview(kind="text", text=_todo_lines(args.todos or ()))

    def touches(self, args: TodoArgs) -> Sequence[Resource]:
        return ()

    async def run(self, args: TodoArgs, context: ToolContext) -> ToolResult:
        if args.writes:
            self._items = self._check_items(args.todos)
        done = sum(item.status == "completed" for item in self._items)
        message = f"{len(self._items)} items, {done} completed" if self._items else "The list is empty"
        text = "\n".join(
            filter(None, (f"message: {message}", f"total_count: {len(self._items)}", _todo_lines(self._items)))
        )
        return ToolResult(
            parts=(TextPart(text=text),),
            summary=f"{done} of {len(self._items)} done" if self._items else "empty",
            display={PLAN_MIME: _shown_plan(self._items).model_dump(mode="json")},
            details={
                "message": message,
                "todos": [item.model_dump() for item in self._items],
                "total_count": len(self._items),
            },
        )

    def _check_items(self, items: Sequence[TodoItem] | None) -> tuple[TodoItem, ...]:
        if items is None:
            raise ToolError("write requires todos, the whole list; an empty list clears it.")
        if len(items) > self.options.max_todos:
            raise ToolError(f"{len(items)} items are more than {self.options.max_todos}. Join or drop some.")
        items = [item if item.id else item.model_copy(update={"id": str(at)}) for at, item in enumerate(items, start=1)]
        twice = [name for name, count in Counter(item.id for item in items).items() if count > 1]
        if twice:
            raise ToolError(f"These ids are there more than once: {', '.join(twice)}. Give each item its own.")
        return tuple(items)


_SIGNS: dict[Status, str] = {"pending": " ", "in_progress": "~", "completed": "x", "cancelled": "-"}


def _todo_lines(items: Sequence[TodoItem]) -> str:
    return "\n".join(f"[{_SIGNS[item.status]}] {item.content}" for item in items)


_STATUSES: dict[Status, PlanStatus] = {
    "pending": "to do",
    "in_progress": "in progress",
    "completed": "done",
    "cancelled": "cancelled",
}


def _shown_plan(items: Sequence[TodoItem]) -> Plan:
    """Build the displayed plan, mentioning priorities other than medium."""
    return Plan(items=tuple(PlanItem(words=_item_words(item), status=_STATUSES[item.status]) for item in items))


def _item_words(item: TodoItem) -> str:
    return item.content if item.priority == "medium" else f"{item.content} ({item.priority} priority)"
