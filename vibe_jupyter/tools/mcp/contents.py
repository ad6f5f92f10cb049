"""What a server lets us read, and the messages of its prompts, as a message takes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vibe_jupyter.protocol import ImagePart, TextPart, ToolResult
from vibe_jupyter.tools.mcp.results import Source, result_of
from vibe_jupyter.tools.truncate import head_and_tail

if TYPE_CHECKING:
    from mcp_types import BlobResourceContents, ContentBlock, TextResourceContents

PROMPT_LIMIT: Final = 60_000
"""Characters of one text of a prompt."""


@dataclass(frozen=True)
class Named(Source):
    """A resource or a prompt in the place of a tool."""

    name: str = ""
    kind: str = "resource"

    @property
    def words(self) -> str:
        return f"MCP server {self.server}, {self.kind} {self.tool}"


def resource_result(
    contents: "Sequence[TextResourceContents | BlobResourceContents]", source: Named, *, sees_images: bool
) -> ToolResult:
    """The contents of one resource, for the model, the person and the log."""
    from mcp_types import CallToolResult, EmbeddedResource  # noqa: PLC0415 - it is loaded: a server of ours speaks

    blocks: list[ContentBlock] = [EmbeddedResource(resource=one) for one in contents]
    return result_of(CallToolResult(content=blocks), source, sees_images=sees_images)


def prompt_parts(block: "ContentBlock", source: Named, *, sees_images: bool) -> tuple[TextPart | ImagePart, ...]:
    """One message of a prompt. Its text is the wish itself, as the person chose it; what it carries along is data."""
    from mcp_types import CallToolResult, TextContent  # noqa: PLC0415 - it is loaded: a server of ours speaks

    if isinstance(block, TextContent):
        return (TextPart(text=head_and_tail(block.text, PROMPT_LIMIT)),)
    return result_of(CallToolResult(content=[block]), source, sees_images=sees_images).parts
