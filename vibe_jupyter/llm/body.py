"""Request bodies from bytes that are kept: each message is encoded once in its life (performance 6.2)."""

from vibe_jupyter.llm.dialect import Dialect, Terms
from vibe_jupyter.llm.request import Model, Request
from vibe_jupyter.llm.sequence import arranged
from vibe_jupyter.protocol import Message, ToolSpec


class BodyEncoder:
    """Keeps the bytes of the messages and tools of the latest request, and of no other."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._model: Model | None = None
        self._tools: tuple[ToolSpec, ...] = ()
        self._tool_bytes = b""
        self._messages: dict[tuple[int, bool], tuple[Message, bytes]] = {}
        """By identity, and whether the message itself is meant or what follows it. The message is held beside its
        bytes, so that its identity cannot become another's."""

    def encode(self, request: Request, terms: Terms | None = None) -> bytes:
        """The body of a request."""
        if request.tools != self._tools:
            self._tools = request.tools
            self._tool_bytes = self._dialect.encode_tools(request.tools)
        head = self._dialect.encode_head(request, tools=self._tool_bytes, terms=terms or Terms())
        return head + b",".join(self._fragments(request)) + self._dialect.tail

    def _fragments(self, request: Request) -> list[bytes]:
        model = request.model
        before = self._messages if model == self._model else {}
        self._model, self._messages = model, {}
        order = arranged(request.messages, sees_images=model.sees_images, alternates=self._dialect.alternates)
        fragments: list[bytes] = []
        for anchor, message in order:
            key = (id(anchor), anchor is message)
            kept = before.get(key) or (anchor, self._dialect.encode_message(message, model))
            self._messages[key] = kept
            fragments.append(kept[1])
        return fragments
