"""The tool `grep`: search the project's files by a regular expression."""

from collections.abc import Sequence
from typing import Final

from pydantic import ConfigDict, Field

from vibe_jupyter.files.path_arguments import PathArguments
from vibe_jupyter.files.search import opened, search_files
from vibe_jupyter.files.search_rules import SearchLimits, SearchQuery, SearchResult
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.protocol import Headline, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.contract import UNLISTED, Tool, ToolContext, ToolOptions

_SAID: Final = 1_000  # characters reserved for the notes of a result
DEFAULT_MATCHES: Final = 100  # matches returned if the model sets no limit


class GrepOptions(ToolOptions):
    """Settings in ``[tools.grep]``."""

    max_output_bytes: int = Field(default=64_000, ge=1)
    default_max_matches: int = Field(default=DEFAULT_MATCHES, ge=1)
    default_timeout: float = Field(default=60, gt=0)  # seconds for one search


class GrepArgs(PathArguments):
    """What to search for, and where."""

    model_config = ConfigDict(extra="forbid")

    pattern: str = Field(min_length=1, max_length=10_000)
    path: str = Field(default=".", min_length=1)
    max_matches: int | None = Field(default=None, ge=1, json_schema_extra=UNLISTED)
    use_default_ignore: bool = True


class GrepTool(Tool[GrepArgs]):
    """Searches with ripgrep, or an equivalent in Python. Skips files that may contain secrets unless they are named."""

    name = "grep"
    description = (
        "Search lines of files by a regular expression. A lower-case pattern matches any case. Ignored, hidden "
        "and binary files are skipped."
    )
    level = "always"
    arguments = GrepArgs
    without_values = "of code files"

    def __init__(self, workspace: Workspace, options: GrepOptions | None = None) -> None:
        self._workspace = workspace
        self._options = options or GrepOptions()
        if "max_output_bytes" in self._options.model_fields_set:
            self.result_limit = self._options.max_output_bytes + _SAID  # matches and notes

    def headline(self, args: GrepArgs) -> Headline:
        note = "" if args.path == "." else f"in {args.path}"
        return Headline(verb="Searched for", doing="Searching for", asking="Search for", target=args.pattern, note=note)

    def preview(self, args: GrepArgs) -> Preview:
        return Preview(kind="text", text=f"Search {args.path} for {args.pattern} and send the lines to the model.")

    def touches(self, args: GrepArgs) -> Sequence[Resource]:
        return (Resource(kind="path", value=args.path, access="read"),)

    async def run(self, args: GrepArgs, context: ToolContext) -> ToolResult:
        located = args.settle(self._workspace, (args.path,))[args.path]
        query = SearchQuery(args.pattern, str(located.path), args.use_default_ignore)
        options = self._options
        limits = SearchLimits(
            matches=args.max_matches or options.default_max_matches,
            bytes=options.max_output_bytes,
            seconds=options.default_timeout,
        )
        with opened(self._workspace, located) as target:
            return _grep_result(await search_files(query, self._workspace.root, target, limits))


def _grep_result(found: SearchResult) -> ToolResult:
    count = len(found.matches)
    matches = "\n".join(f"{match.path}:{match.line}:{match.text}" for match in found.matches)
    fields = [f"match_count: {count}", f"was_truncated: {'true' if found.was_truncated else 'false'}"]
    if found.was_truncated:
        fields.append("note: there are more matches; narrow the pattern or the path, or raise max_matches")
    text = "\n".join([*fields, "matches:", matches]) if count else "\n".join(fields)
    return ToolResult(
        parts=(TextPart(text=text),),
        summary=_grep_summary(found),
        display={"text/plain": head_and_tail(matches)} if count else {},
        details={"match_count": count, "was_truncated": found.was_truncated},
    )


def _grep_summary(found: SearchResult) -> str:
    count = len(found.matches)
    if not count:
        return "no matches"
    files = len({match.path for match in found.matches})
    lines = f"first {count} matches" if found.was_truncated else f"{count} match{'es' * (count != 1)}"
    return f"{lines} in {files} file{'s' * (files != 1)}"
