"""Run output for programs: the answer, one JSON document, or a line of JSON per event. No approvals are possible."""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, TextIO

from vibe_jupyter.llm.json_text import repair_surrogates
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
from vibe_jupyter.session.journal import SHORT_ID
from vibe_jupyter.shell_advice import PROGRAM, in_shell
from vibe_jupyter.ui.front_end import Metadata, Send
from vibe_jupyter.ui.status_line import end_words
from vibe_jupyter.ui.step import plain_line
from vibe_jupyter.ui.text import one_line, readable_text
from vibe_jupyter.ui.text_prompt import PromptTasks

Output = Literal["text", "json", "streaming"]
OUTPUTS: Final[tuple[Output, ...]] = ("text", "json", "streaming")
NOTICE_LIMIT: Final = 4_000  # characters of a notice to print; long enough for the next step, which comes last
# Messages for incomplete answers, by stop reason.
CUT: Final = {
    "length": "The answer ends here because it reached the model's output limit. Ask it to go on, or raise max_tokens.",
    "content_filter": "The answer ends here because the server's content filter cut it.",
    "interrupted": "The answer ended early. It is not sent to the model again.",
}


class ProgramFrontEnd:
    """Front end that passes every event to a writer and rejects approvals and questions."""

    def __init__(self, writer: "RunWriter") -> None:
        self._writer = writer
        self._asking = PromptTasks(None)
        self._send: Send | None = None

    def open(self, send: Send) -> None:
        """Store `send`. Main thread."""
        self._send = send

    async def on_event(self, event: Event) -> None:
        self._writer.take(event)
        self._asking.take(event, self._send)

    async def attended(self) -> bool:
        """Return False: a program can't answer."""
        return False

    def close(self, metadata: Metadata | None = None) -> MimeBundle:
        """Write the final output, which includes how the run ended. Main thread."""
        self._send = None
        self._writer.finish()
        return {}


class RunWriter:
    """Writer of a run in one of three formats."""

    def __init__(self, output: Output, out: TextIO, *, folder: Path | None = None) -> None:
        """
        Args:
            output: The format.
            out: Stream for the output and nothing else.
            folder: Project directory, if given on the command line.
        """
        self._output = output
        self._out = out
        self._folder = folder
        self._steps = sys.stderr
        self.session_id: Callable[[], str] = str  # returns the id of the saved conversation, or ""
        self._messages: list[Message] = []
        self._started: RunStarted | None = None
        self._finished: RunFinished | None = None

    def take(self, event: Event) -> None:
        """Process the next event."""
        event = self._advise(event)
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
                self._say(readable_text(one_line(event.text, NOTICE_LIMIT)))
            case _:
                pass

    def finish(self) -> None:
        """Write what remains when the run is over."""
        if self._output == "json":
            self._write(json.dumps(self._document(), ensure_ascii=False, indent=2))
        elif self._output == "text":
            last = self._last_answer()
            answer = last.text if last is not None else ""
            self._write(readable_text(answer) if self._out.isatty() else answer)
        if (finished := self._finished) is not None:
            ending = "" if finished.reason == "stop" else f"{end_words(finished.reason)[1]}."
            for said in dict.fromkeys(filter(None, (self._cut_words(), finished.error or ending))):
                self._say(readable_text(said))
        if session_id := self.session_id():
            named = "" if self._folder is None else f" --folder {shlex.quote(str(self._folder))}"
            short = session_id[:SHORT_ID]
            step = f"{PROGRAM} ask{named} --resume {short} continues it."
            print(f"Session {short}: {step}", file=self._steps, flush=True)

    @property
    def is_cut(self) -> bool:
        """True if the last answer is incomplete."""
        return bool(self._cut_words())

    def _cut_words(self) -> str:
        last = self._last_answer()
        return CUT.get(last.stop_reason, "") if last is not None else ""

    def _last_answer(self) -> AssistantMessage | None:
        return next((one for one in reversed(self._messages) if isinstance(one, AssistantMessage)), None)

    def _advise(self, event: Event) -> Event:
        """Replace `%vibe` commands in the event's text with shell commands."""
        match event:
            case Notice(text=text) if "%vibe" in text:
                return event.model_copy(update={"text": in_shell(text, self._folder)})
            case RunFinished(error=error) if "%vibe" in error:
                return event.model_copy(update={"error": in_shell(error, self._folder)})
            case _:
                return event

    def _document(self) -> dict[str, Any]:
        started, finished = self._started, self._finished
        return {
            "messages": [chat_message(message) for message in self._messages],
            "model": started.model if started is not None else "",
            "agent": started.agent if started is not None else "",
            **(finished.model_dump(mode="json", exclude={"type"}) if finished is not None else {}),
            "cut": self._cut_words(),
            "session_id": self.session_id(),
        }

    def _write(self, text: str) -> None:
        self._out.write(f"{repair_surrogates(text)}\n")  # as in a file name that isn't UTF-8
        self._out.flush()

    def _say(self, text: str) -> None:
        if self._output != "streaming":
            print(text, file=self._steps, flush=True)


def chat_message(message: Message) -> dict[str, Any]:
    """Convert a message to the Chat Completions format."""
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
