"""A run shown to a program: its answer, one JSON document, or a line of JSON for each event. Nobody can be asked."""

import json
import sys
from typing import Any, Final, Literal, TextIO

from vibe_jupyter.protocol import (
    AssistantMessage,
    Event,
    ImagePart,
    Message,
    MessageAdded,
    MimeBundle,
    Notice,
    RunFinished,
    RunStarted,
    TextPart,
    ToolFinished,
    ToolMessage,
    UserMessage,
)
from vibe_jupyter.protocol.schema import event_line
from vibe_jupyter.ui.front_end import Metadata, Send
from vibe_jupyter.ui.step import plain_line
from vibe_jupyter.ui.text import one_line, readable_text
from vibe_jupyter.ui.text_prompt import PromptTasks

Output = Literal["text", "json", "streaming"]
OUTPUTS: Final[tuple[Output, ...]] = ("text", "json", "streaming")


class ProgramFrontEnd:
    """Hands every event to a writer; what would ask is answered no."""

    def __init__(self, writer: "RunWriter") -> None:
        self._writer = writer
        self._asking = PromptTasks(None)
        self._send: Send | None = None

    def open(self, send: Send) -> None:
        """Nothing to show yet. Main thread."""
        self._send = send

    async def on_event(self, event: Event) -> None:
        """Write what is written at once."""
        self._writer.take(event)
        self._asking.take(event, self._send)

    async def attended(self) -> bool:
        """A program answers nothing."""
        return False

    def close(self, metadata: Metadata | None = None) -> MimeBundle:
        """Write what is written at the end; it has how the run ended. Main thread."""
        self._send = None
        self._writer.finish()
        return {}


class RunWriter:
    """Writes a run in one of three forms."""

    def __init__(self, output: Output, out: TextIO, steps: TextIO = sys.stderr) -> None:
        """
        Args:
            output: the form.
            out: gets the form, and nothing else.
            steps: gets a line for each step and notice where `out` does not tell of them while they happen.
        """
        self._output = output
        self._out = out
        self._steps = steps
        self._messages: list[Message] = []
        self._started: RunStarted | None = None
        self._finished: RunFinished | None = None

    def take(self, event: Event) -> None:
        """The next event."""
        if self._output == "streaming":
            self._write(event_line(event))
        match event:
            case RunStarted():
                self._started = event
            case RunFinished():
                self._finished = event
            case MessageAdded(message=message):
                self._messages.append(message)
            case ToolFinished():
                self._say(plain_line(event))
            case Notice():
                self._say(readable_text(one_line(event.text)))
            case _:
                pass

    def finish(self) -> None:
        """The run is over."""
        if self._output == "json":
            self._write(json.dumps(self._document(), ensure_ascii=False, indent=2))
        elif self._output == "text":
            answers = [message.text for message in self._messages if isinstance(message, AssistantMessage)]
            answer = answers[-1] if answers else ""
            self._write(readable_text(answer) if self._out.isatty() else answer)
        if self._finished is not None and self._finished.error:
            self._say(readable_text(self._finished.error))

    def _document(self) -> dict[str, Any]:
        started, finished = self._started, self._finished
        return {
            "messages": [chat_message(message) for message in self._messages],
            "model": started.model if started is not None else "",
            "agent": started.agent if started is not None else "",
            **(finished.model_dump(mode="json", exclude={"type"}) if finished is not None else {}),
        }

    def _write(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()

    def _say(self, text: str) -> None:
        if self._output != "streaming":
            print(text, file=self._steps, flush=True)


def chat_message(message: Message) -> dict[str, Any]:
    """A message as Chat Completions writes it."""
    match message:
        case UserMessage(parts=parts):
            return {"role": "user", "content": _content(parts)}
        case ToolMessage(parts=parts):
            told = {"role": "tool", "tool_call_id": message.call_id, "name": message.name}
            return {**told, "content": _content(parts)}
        case AssistantMessage(calls=calls):
            spoken: dict[str, Any] = {"role": "assistant", "content": message.text}
            called = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in calls
            ]
            return {**spoken, "tool_calls": called} if called else spoken
        case _:
            return {"role": message.role, "content": message.text}


def _content(parts: tuple[TextPart | ImagePart, ...]) -> Any:
    if all(isinstance(part, TextPart) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, TextPart))
    return [_content_part(part) for part in parts]


def _content_part(part: TextPart | ImagePart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}
