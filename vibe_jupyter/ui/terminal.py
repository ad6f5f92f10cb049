"""Terminal front end: streams the answer, one line per step, questions on the prompt."""

import asyncio
import re
from collections import deque
from collections.abc import Callable

from vibe_jupyter.protocol import (
    AnswerAwaited,
    ApprovalResolved,
    AssistantMessage,
    Event,
    FileProduced,
    MessageAdded,
    MimeBundle,
    Notice,
    QuestionAnswered,
    RunFinished,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from vibe_jupyter.ui.cell_references import CellWords
from vibe_jupyter.ui.front_end import CallOnMainThread, Metadata, Send, Throttle
from vibe_jupyter.ui.status_line import awaited_line, left_words
from vibe_jupyter.ui.step import Milestones, plain_line
from vibe_jupyter.ui.terminal_style import PLAIN, Ink, TerminalStyle, text_columns
from vibe_jupyter.ui.text import one_line, output_text, readable_text, split_unfinished
from vibe_jupyter.ui.text_prompt import PromptTasks, TextPrompt
from vibe_jupyter.ui.transcript import Transcript

PRINT_GAP = 0.05  # seconds between writes
_OUTCOMES: dict[str, Ink] = {"ok": "ok", "error": "bad", "denied": "warn", "interrupted": "warn"}

FENCES = ("```", "~~~")  # line starts that open or close a code block, which isn't wrapped

_PIECE = re.compile(r"\n|[^\S\n]+|\S+")

TICK = 1.0  # seconds between countdown updates


class TerminalFrontEnd:
    """Front end of a run in a terminal. The main thread prints everything, in the order of the events."""

    def __init__(
        self,
        transcript: Transcript,
        prompt: TextPrompt,
        *,
        call_main: CallOnMainThread,
        write: Callable[[str], None],
        paper: TerminalStyle = PLAIN,
    ) -> None:
        self._paper = paper
        self._wrap = WordWrap(paper.width)
        self._transcript = transcript
        self._write = write
        self._pace = Throttle(call_main, lambda: self._print_pending, gap=PRINT_GAP)
        self._asking = PromptTasks(prompt, before=self._pace.now)
        self._waiting: deque[str] = deque()  # text to print; filled on the loop, emptied on the main thread
        self._countdown = Countdown(self._say_text)
        self._milestones = Milestones()
        self._held = ""
        self._cell_words = CellWords(transcript.find_cell)
        self._streamed = False  # True if the current answer was printed as it streamed
        self._send: Send | None = None

    def open(self, send: Send) -> None:
        """Store `send`. Main thread."""
        self._send = send

    async def on_event(self, event: Event) -> None:
        """Print what is new."""
        self._transcript.fold(event)
        self._countdown.end()
        self._say_text(self._text_of(event))
        if isinstance(event, Notice) and event.wait and self._paper.width is not None:
            self._countdown.begin(event.wait)
        self._asking.take(event, self._send)
        if isinstance(event, RunFinished):
            await self._pace.stop()

    async def attended(self) -> bool:
        """Return True: a user is at the terminal."""
        return True

    def close(self, metadata: Metadata | None = None) -> MimeBundle:
        """Print the rest; terminals ignore `metadata`. Main thread."""
        self._send = None
        self._print_pending()
        return self._transcript.bundle()

    def _say_text(self, text: str) -> None:
        self._waiting.append(text)
        self._pace.soon()

    def _text_of(self, event: Event) -> str:
        match event:
            case TextDelta():
                self._streamed = True
                ready, self._held = split_unfinished(self._held + event.text)
                return self._wrap.feed(readable_text(self._cell_words.feed(ready)))
            case MessageAdded(message=AssistantMessage() as message):
                rest = self._cell_words.feed(self._held if self._streamed else message.text) + self._cell_words.end()
                text = readable_text(rest)
                shown = self._wrap.feed(text) + self._wrap.end()
                self._streamed, self._held = False, ""
                return f"{shown}\n" if message.text else ""
            case ApprovalResolved(by="code") | QuestionAnswered(by="code"):
                return self._painted_lines(_by_code(event), "warn")
            case ToolStarted():
                self._milestones.begin(event)
                return ""
            case ToolProgress():
                line = self._milestones.line(event)
                return self._painted_lines(self._paper.fit(line), "quiet") if line else ""
            case ToolFinished():
                line = self._paper.fit(plain_line(event))
                return f"{self._paper.ink(_OUTCOMES[event.outcome], line[:1])}{line[1:]}\n"
            case FileProduced():
                place = event.problem or event.path
                line = self._paper.fit(readable_text(one_line(f"Made the file {event.name} on {event.host}: {place}")))
                return f"{self._paper.ink('bad' if event.problem else 'ok', line)}\n"
            case Notice() | AnswerAwaited(has_begun=False):
                return self._aside(event)
            case RunFinished():
                error = self._painted_lines(output_text(event.error), "bad") if event.error else ""
                return error + self._painted_lines(self._transcript.foot_line, "quiet")
            case _:
                return ""

    def _aside(self, event: Notice | AnswerAwaited) -> str:
        if isinstance(event, AnswerAwaited):
            return self._painted_lines(awaited_line(event), "quiet")
        return self._painted_lines(output_text(event.text), "warn")

    def _painted_lines(self, text: str, ink: Ink) -> str:
        lines = (row for line in text.split("\n") for row in self._paper.fill(line).split("\n"))
        return "".join(f"{self._paper.ink(ink, line)}\n" for line in lines)

    def _print_pending(self) -> None:
        pieces: list[str] = []
        while self._waiting:
            pieces.append(self._waiting.popleft())
        text = "".join(pieces)
        if text:
            self._write(text)


def _by_code(event: ApprovalResolved | QuestionAnswered) -> str:
    decided = "Answered" if isinstance(event, QuestionAnswered) else "Allowed" if event.allowed else "Denied"
    return f"{decided} by code in this process, not by you."


class WordWrap:
    """Word wrapping for streamed text. Each word is buffered until it is complete."""

    def __init__(self, width: int | None) -> None:
        self._width = width  # columns; None for no wrapping
        self._column = 0
        self._blank = ""  # blanks before the word; dropped at our line breaks
        self._word = ""
        self._line = ""  # start of the current source line, to detect fences
        self._in_code = False

    def feed(self, text: str) -> str:
        """Return the text that can be displayed now."""
        if self._width is None:
            return text
        return "".join(map(self._take_piece, _PIECE.findall(text)))

    def end(self) -> str:
        """Return the rest and start a new line."""
        rest = self._flush_word() if self._width is not None else ""
        self._column, self._line, self._in_code = 0, "", False
        return rest

    def _take_piece(self, piece: str) -> str:
        if piece == "\n":
            shown = self._flush_word()
            if self._line.lstrip().startswith(FENCES):
                self._in_code = not self._in_code
            self._column, self._line = 0, ""
            return f"{shown}\n"
        self._line += piece if len(self._line) < 8 else ""
        if not piece.isspace():
            self._word += piece
            return ""
        shown = self._flush_word()
        self._blank = piece
        return shown

    def _flush_word(self) -> str:
        blank, word = self._blank, self._word
        self._blank = self._word = ""
        needs = text_columns(blank) + text_columns(word)
        keeps = self._in_code or self._line.lstrip().startswith(FENCES)
        if word and self._column and self._column + needs > (self._width or needs) and not keeps:
            self._column = text_columns(word)
            return f"\n{word}"
        self._column += needs
        return blank + word


class Countdown:
    """Countdown that overwrites itself and leaves an empty line. On the loop."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._task: asyncio.Task[None] | None = None
        self._shown = 0  # columns in use on the line

    def begin(self, seconds: float) -> None:
        """Start a countdown, replacing any previous one."""
        self.end()
        self._task = asyncio.create_task(self._count_down(seconds))

    def end(self) -> None:
        """End the countdown, expired or not."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self._put_line("")

    async def _count_down(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while (left := until - loop.time()) > 0:
            self._put_line(f"  {left_words(left)}")
            await asyncio.sleep(min(TICK, left))
        self._put_line("")

    def _put_line(self, words: str) -> None:
        """Overwrite the line using blanks rather than control sequences, which some terminals don't support."""
        gone = f"\r{' ' * self._shown}\r" if self._shown else ""
        self._write(gone + words)
        self._shown = len(words)
