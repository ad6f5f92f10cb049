"""The tool `find_tools`: where servers offer so many tools that their schemas would fill the prompt."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.protocol import Headline, Level, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.base import ToolContext
from vibe_jupyter.tools.data_block import data_block
from vibe_jupyter.tools.mcp.names import Published
from vibe_jupyter.tools.mcp.tool import spec_of

FOUND_LIMIT: Final = 8
"""Tools of one answer."""
FOUND_SIZE: Final = 7_000
"""Characters of one answer; at least one tool is in it."""
NAMES_SIZE: Final = 6_000
"""Characters of names in the description."""
_WORD: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_IN_NAME: Final = 4
_IN_SERVER: Final = 2
"""What a word counts that stands in the name of the tool or of its server; in the description it counts one."""


class FindToolsArgs(BaseModel):
    """What is looked for."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1)


class FindTools:
    """Answers with whole definitions; what it names is offered from the next request on."""

    name = "find_tools"
    level: Level = "always"
    arguments = FindToolsArgs

    def __init__(
        self,
        known: Callable[[], Sequence[Published]],
        hint: Callable[[Published], str],
        load: Callable[[Published], None],
    ) -> None:
        self._known = known
        self._hint = hint
        self._load = load

    @property
    def description(self) -> str:
        return (
            "Look up tools of MCP servers by words or by name. It answers with their parameters; then call them by "
            f"name.\n{self._names()}"
        )

    def headline(self, args: FindToolsArgs) -> Headline:
        return Headline(verb="Looked up", doing="Looking up", asking="Look up", target=args.query, note="in MCP tools")

    def preview(self, args: FindToolsArgs) -> Preview:
        return Preview(kind="text", text="Look up tools of MCP servers.")

    def touches(self, args: FindToolsArgs) -> Sequence[Resource]:
        return ()

    async def run(self, args: FindToolsArgs, context: ToolContext) -> ToolResult:
        fitting = ranked(args.query, self._known())
        told: list[str] = []
        for one in fitting[:FOUND_LIMIT]:
            spec = spec_of(one)
            text = json.dumps(spec.model_dump(mode="json"), ensure_ascii=False)
            if told and sum(map(len, told)) + len(text) > FOUND_SIZE:
                break
            self._load(one)
            told.append(text)
        if not told:
            return ToolResult.text(f"No tool fits {args.query!r}.\n{self._names()}", summary="none")
        left = len(fitting) - len(told)
        more = f"\n{left} more fit: {', '.join(one.name for one in fitting[len(told) :][:FOUND_LIMIT])}" if left else ""
        names = [one.name for one in fitting[: len(told)]]
        return ToolResult(
            parts=(TextPart(text=f"{data_block(chr(10).join(told), 'Definitions by MCP servers')}{more}"),),
            summary=f"{len(told)} found",
            display={"text/plain": "\n".join(names)},
        )

    def _names(self) -> str:
        """All names by server with the person's hint, as many as there is room for."""
        servers: dict[str, list[str]] = {}
        for one in self._known():
            hint = self._hint(one)
            servers.setdefault(f"{one.server} ({hint})" if hint else one.server, []).append(one.name)
        text = "\n".join(f"{server}: {', '.join(names)}" for server, names in servers.items())
        return text if len(text) <= NAMES_SIZE else f"{text[:NAMES_SIZE].rpartition(',')[0]}, and others"


def ranked(query: str, known: Sequence[Published]) -> list[Published]:
    """The tools in which the words of a query stand, best first."""
    wanted = _words(query)
    scored = [(_score(wanted, query.strip(), one), place) for place, one in enumerate(known)]
    return [known[place] for score, place in sorted(scored, key=lambda each: (-each[0], each[1])) if score]


def _score(wanted: frozenset[str], query: str, one: Published) -> int:
    if query in one.names or query == one.tool.name:
        return 1_000
    name, server, said = _words(one.tool.name), _words(one.server), _words(one.tool.description)
    return _IN_NAME * _hits(wanted, name) + _IN_SERVER * len(wanted & server) + _hits(wanted, said)


def _hits(wanted: frozenset[str], words: frozenset[str]) -> int:
    """Words that stand there, or begin one that does."""
    return sum(any(word.startswith(one) for word in words) for one in wanted)


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(_CAMEL.sub(" ", text)))
