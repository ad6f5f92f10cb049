"""The tool `memory`: facts about the project that outlast the kernel (seed 004, MemoryTool)."""

import asyncio
from collections.abc import Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vibe_jupyter.errors import ToolError
from vibe_jupyter.protocol import Headline, Level, Preview, Resource, ToolResult
from vibe_jupyter.tools.base import ToolContext
from vibe_jupyter.tools.facts import MAX_LENGTH, Fact, FactFile, FactKind, matching

SHOWN: Final = 20
"""Facts a search gives back."""
_WRITES: Final = ("add", "forget")


class MemoryArgs(BaseModel):
    """What to remember, or to look for."""

    model_config = ConfigDict(extra="forbid")

    operation: Literal["add", "search", "get", "forget"]
    content: str = Field(default="", max_length=MAX_LENGTH, description="For add: the fact.")
    type: FactKind = "fact"
    query: str = Field(default="", description="For search: words; empty for all.")
    memory_id: str = Field(default="", description="For get and forget.")

    @model_validator(mode="after")
    def _whole(self) -> "MemoryArgs":
        if self.operation == "add" and not self.content.strip():
            raise ValueError("add wants content")
        if self.operation in ("get", "forget") and not self.memory_id:
            raise ValueError(f"{self.operation} wants memory_id; search shows the ids")
        return self


class Memory:
    """Reading never asks, writing does: what is remembered steers later runs."""

    name = "memory"
    description = (
        "Facts about this project that outlast the kernel: what the person prefers, what was decided and why. Search "
        "it when a task may depend on such things; add what the person asks to remember or will clearly want again."
    )
    level: Level = "ask"
    arguments = MemoryArgs

    def __init__(self, file: FactFile) -> None:
        self._file = file

    def level_of(self, args: MemoryArgs) -> Level:
        """Looking is free (`vibe_jupyter.tools.base.Graded`)."""
        return self.level if args.operation in _WRITES else "always"

    def headline(self, args: MemoryArgs) -> Headline:
        match args.operation:
            case "add":
                return Headline(verb="Remembered", doing="Remembering", asking="Remember", target="", note=args.content)
            case "forget":
                return Headline(verb="Forgot", doing="Forgetting", asking="Forget", target=args.memory_id)
            case _:
                target = args.query or args.memory_id
                return Headline(verb="Recalled", doing="Recalling", asking="Recall", target=target)

    def preview(self, args: MemoryArgs) -> Preview:
        if args.operation == "add":
            return Preview(kind="text", text=args.content, edits="content")
        known = {fact.id: fact.text for fact in self._facts()} if args.operation == "forget" else {}
        return Preview(kind="text", text=known.get(args.memory_id, f"{args.operation} {args.query or args.memory_id}"))

    def touches(self, args: MemoryArgs) -> Sequence[Resource]:
        access: Literal["read", "write"] = "write" if args.operation in _WRITES else "read"
        return (Resource(kind="memory", value=str(self._file.path), access=access),)

    async def run(self, args: MemoryArgs, context: ToolContext) -> ToolResult:
        try:
            return await asyncio.to_thread(self._run, args)
        except OSError as error:
            raise ToolError(f"The memory file {self._file.path} cannot be used: {error.strerror or error}.") from error
        except ValueError as error:
            raise ToolError(f"Not remembered: {error}.") from error

    def _run(self, args: MemoryArgs) -> ToolResult:
        match args.operation:
            case "add":
                fact = self._file.add(args.content, args.type)
                text, summary = f"success: true\nmemory_id: {fact.id}", fact.id
            case "forget":
                fact = self._file.forget(args.memory_id) or self._missing(args.memory_id)
                text, summary = f"success: true\nforgotten: {fact.text}", ""
            case "get":
                fact = next((one for one in self._file.facts() if one.id == args.memory_id), None)
                text, summary = _listed([fact or self._missing(args.memory_id)]), ""
            case "search":
                found = matching(self._file.facts(), args.query)
                head = f"success: true\nfound: {len(found)}" + (f", first {SHOWN}" if len(found) > SHOWN else "")
                text = "\n".join(filter(None, (head, _listed(found[:SHOWN]))))
                summary = f"{len(found)} fact{'s' * (len(found) != 1)}"
        return ToolResult.text(text, summary=summary, display={"text/plain": text})

    def _facts(self) -> list[Fact]:
        try:
            return self._file.facts()
        except OSError:
            return []

    def _missing(self, fact_id: str) -> Fact:
        known = ", ".join(fact.id for fact in self._file.facts()[-SHOWN:]) or "none"
        raise ToolError(f"There is no fact {fact_id!r}. Known: {known}.")


def _listed(facts: list[Fact]) -> str:
    return "".join(fact.line() for fact in facts).rstrip("\n")
