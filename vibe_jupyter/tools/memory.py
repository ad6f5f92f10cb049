"""The tool `memory`: facts about the project that outlast the kernel, in a Markdown file that people can edit.

- `mem_3f2a9c01` (preference, 2026-01-31): Plots have a dark background.
      A second line of a fact is indented.

Lines in any other form belong to the user and are preserved.
"""

import asyncio
import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.atomic_write import locked_file, replace_text
from vibe_jupyter.protocol import Headline, Preview, Resource, ToolResult
from vibe_jupyter.tools.contract import UNLISTED, Tool, ToolContext

SHOWN: Final = 20  # facts returned by a search
_WRITES: Final = ("add", "forget")

ANY_KIND: Final = "fact"  # type of facts without one
MAX_FACTS: Final = 1_000  # facts of one project
MAX_LENGTH: Final = 2_000  # characters of one fact
_ID_BYTES: Final = 4
_LINE: Final = re.compile(r"- `(?P<id>mem_[0-9a-f]{8})` \((?P<kind>\w+), (?P<date>\d{4}-\d\d-\d\d)\): (?P<text>.*)")
_MORE: Final = "  "  # indentation of a fact's continuation lines


class MemoryArgs(BaseModel):
    """What to remember, or to look for."""

    model_config = ConfigDict(extra="forbid")

    operation: Literal["add", "search", "get", "forget"]
    content: str = Field(default="", max_length=MAX_LENGTH, description="For add: the fact.")
    type: str = Field(default="", pattern=r"^\w{0,20}$", json_schema_extra=UNLISTED)
    """One word, such as knowledge; search gives only facts of it. Empty for `ANY_KIND`, and to search all."""
    query: str = Field(default="", description="For search; empty for all.")
    memory_id: str = Field(default="", description="For get and forget.")

    @model_validator(mode="after")
    def _check_whole(self) -> "MemoryArgs":
        if self.operation == "add" and not self.content.strip():
            raise ValueError("add requires content")
        if self.operation in ("get", "forget") and not self.memory_id:
            raise ValueError(f"{self.operation} requires memory_id; search shows the ids")
        return self


@dataclass(frozen=True)
class MemoryFact:
    """A remembered fact."""

    id: str
    kind: str  # type, a single word
    date: str  # date it was added (UTC, ISO 8601)
    text: str

    def line(self) -> str:
        """Format the fact for the file."""
        text = self.text.replace("\n", f"\n{_MORE}")
        return f"- `{self.id}` ({self.kind}, {self.date}): {text}\n"


class MemoryFile:
    """Facts of one project. The file is read each time, since the user may edit it."""

    def __init__(self, folder: Path, project: Path) -> None:
        digest = hashlib.sha256(str(project).encode("utf-8", "surrogateescape")).hexdigest()[:8]
        self.path = folder / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', project.name) or 'root'}-{digest}.md"
        self._title = f"# What the agent remembers of {project}\n\n"

    def facts(self) -> list[MemoryFact]:
        """Return all facts, oldest first.

        Raises:
            OSError: the file can't be read.
        """
        return [fact for _, fact in _parse_facts(self._read_text()) if fact is not None]

    def add(self, text: str, kind: str = ANY_KIND) -> MemoryFact:
        """Add a fact, unless one with the same text and type exists.

        Raises:
            OSError: the file can't be written.
            ValueError: there are too many facts.
        """
        text = "\n".join(line.rstrip() for line in text.strip().splitlines())
        with locked_file(self.path):
            before = self._read_whole()
            facts = [fact for _, fact in _parse_facts(before) if fact is not None]
            for fact in facts:
                if (fact.text, fact.kind) == (text, kind):
                    return fact
            if len(facts) >= MAX_FACTS:
                raise ValueError(f"{MAX_FACTS:,} facts are remembered; forget some first")
            fact = MemoryFact(f"mem_{secrets.token_hex(_ID_BYTES)}", kind, datetime.now(UTC).date().isoformat(), text)
            before = before or self._title
            self._write_text(before + ("" if before.endswith("\n") else "\n") + fact.line())
        return fact

    def forget(self, fact_id: str) -> MemoryFact | None:
        """Remove a fact and return it, or None if there is no such id.

        Raises:
            OSError: the file can't be written.
        """
        with locked_file(self.path):
            pieces = _parse_facts(self._read_whole())
            gone = next((fact for _, fact in pieces if fact is not None and fact.id == fact_id), None)
            if gone is not None:
                self._write_text("".join(text for text, fact in pieces if fact is not gone))
        return gone

    def _read_whole(self) -> str:
        """Read the file for rewriting. Fails on invalid UTF-8, which would be lost."""
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError as error:
            raise OSError("it is not UTF-8 text; what is not would be lost. Nothing was changed") from error

    def _write_text(self, text: str) -> None:
        replace_text(self.path.resolve(), text)  # follow the user's symlink instead of replacing it

    def _read_text(self) -> str:
        try:
            return self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""


class MemoryTool(Tool[MemoryArgs]):
    """Reading needs no approval. Writing does, because facts influence later runs."""

    name = "memory"
    description = (
        "Facts about this project that outlast the kernel: preferences, decisions. Search when the task may depend on "
        "them; add what the user asks to remember."
    )
    arguments = MemoryArgs

    def __init__(self, file: MemoryFile) -> None:
        self._file = file

    def is_harmless(self, args: MemoryArgs) -> bool:
        """Return whether the call only reads."""
        return args.operation not in _WRITES

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
        known = {fact.id: fact.text for fact in self._found_facts()} if args.operation == "forget" else {}
        return Preview(kind="text", text=known.get(args.memory_id, f"{args.operation} {args.query or args.memory_id}"))

    def touches(self, args: MemoryArgs) -> Sequence[Resource]:
        access: Literal["read", "write"] = "write" if args.operation in _WRITES else "read"
        return (Resource(kind="memory", value=str(self._file.path), access=access),)

    async def run(self, args: MemoryArgs, context: ToolContext) -> ToolResult:
        try:
            return await asyncio.to_thread(self._run_action, args)
        except OSError as error:
            raise ToolError(f"The memory file {self._file.path} cannot be used: {error.strerror or error}.") from error
        except ValueError as error:
            raise ToolError(f"Not remembered: {error}.") from error

    def _run_action(self, args: MemoryArgs) -> ToolResult:
        match args.operation:
            case "add":
                fact = self._file.add(args.content, args.type or ANY_KIND)
                text, summary = f"success: true\nmemory_id: {fact.id}", fact.id
            case "forget":
                fact = self._file.forget(args.memory_id) or self._find_fact(args.memory_id)
                text, summary = f"success: true\nforgotten: {fact.text}", ""
            case "get":
                fact = next((one for one in self._file.facts() if one.id == args.memory_id), None)
                text, summary = _facts_text([fact or self._find_fact(args.memory_id)]), ""
            case "search":
                found = matching_facts(self._file.facts(), args.query, args.type)
                head = f"success: true\nfound: {len(found)}" + (f", first {SHOWN}" if len(found) > SHOWN else "")
                text = "\n".join(filter(None, (head, _facts_text(found[:SHOWN]))))
                summary = f"{len(found)} fact{'s' * (len(found) != 1)}"
        return ToolResult.text(text, summary=summary, display={"text/plain": text})

    def _found_facts(self) -> list[MemoryFact]:
        try:
            return self._file.facts()
        except OSError:
            return []

    def _find_fact(self, fact_id: str) -> MemoryFact:
        known = ", ".join(fact.id for fact in self._file.facts()[-SHOWN:]) or "none"
        raise ToolError(f"There is no fact {fact_id!r}. Known: {known}.")


def _facts_text(facts: list[MemoryFact]) -> str:
    return "".join(fact.line() for fact in facts).rstrip("\n")


def matching_facts(facts: list[MemoryFact], query: str, kind: str = "") -> list[MemoryFact]:
    """Return facts of a type (any if "") that match words of the query, best first; all for an empty query, newest
    first."""
    facts = [fact for fact in facts if not kind or fact.kind == kind]
    words = set(re.findall(r"\w+", query.casefold()))
    if not words:
        return facts[::-1]
    scored = [(sum(word in f"{fact.kind} {fact.text}".casefold() for word in words), fact) for fact in facts]
    return [fact for score, fact in sorted(scored, key=lambda pair: -pair[0]) if score]


def _parse_facts(text: str) -> list[tuple[str, MemoryFact | None]]:
    """Split the file into pieces, each with its fact or None."""
    pieces: list[tuple[str, MemoryFact | None]] = []
    for line in text.splitlines(keepends=True):
        last = pieces[-1][1] if pieces else None
        if found := _LINE.fullmatch(line.rstrip("\n")):
            pieces.append((line, MemoryFact(found["id"], found["kind"], found["date"], found["text"])))
        elif last is not None and line.startswith(_MORE):
            more = MemoryFact(last.id, last.kind, last.date, f"{last.text}\n{line[len(_MORE) :].rstrip()}")
            pieces[-1] = (pieces[-1][0] + line, more)
        else:
            pieces.append((line, None))
    return pieces
