"""Request bodies from bytes that are kept: each message is encoded once in its life (performance 6.2)."""

from vibe_jupyter.llm.dialect import Dialect
from vibe_jupyter.llm.request import Request
from vibe_jupyter.protocol import Message, ToolSpec


class BodyEncoder:
    """Keeps the bytes of the messages and tools of the latest request, and of no other."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._tools: tuple[ToolSpec, ...] = ()
        self._tool_bytes = b""
        self._messages: dict[int, tuple[Message, bytes]] = {}
        """By identity. The message is held beside its bytes, so that its identity cannot become another's."""

    def encode(self, request: Request, *, plain: bool = False) -> bytes:
        """The body of a request."""
        if request.tools != self._tools:
            self._tools = request.tools
            self._tool_bytes = self._dialect.encode_tools(request.tools)
        head = self._dialect.encode_head(request.model, tools=self._tool_bytes, stream=request.stream, plain=plain)
        kept = self._messages
        self._messages = {id(m): kept.get(id(m)) or (m, self._dialect.encode_message(m)) for m in request.messages}
        fragments = b",".join([self._messages[id(message)][1] for message in request.messages])
        return head + fragments + self._dialect.tail
