"""What the model says and thinks, on the sheet: its text as it comes, its thoughts as a quiet step."""

from dataclasses import replace

from vibe_jupyter.protocol import AssistantMessage, Headline, ReasoningPart, ToolCallDelta
from vibe_jupyter.ui.answer import Answer
from vibe_jupyter.ui.entries import Entry, StepEntry
from vibe_jupyter.ui.group import looks
from vibe_jupyter.ui.sheet import Sheet
from vibe_jupyter.ui.step import THOUGHT, Step, step_html

_THINKING = Step(Headline(verb="Thought", doing="Thinking", asking="", target=""), THOUGHT)
_WRITING_ID = "writing"


class Speech:
    """Folds deltas and messages of the model."""

    def __init__(self, sheet: Sheet, entries: list[Entry]) -> None:
        self.last = ""
        """The text of the last message."""
        self._sheet = sheet
        self._entries = entries
        self._answer: Answer | None = None
        """The text that is being written."""
        self._before = ""
        """What was said of the same answer before a pause."""
        self._thought: StepEntry | None = None
        """The thinking that goes on."""

    def say(self, text: str) -> None:
        """Take a piece of the answer."""
        self._open_answer().add(text)

    def think(self) -> None:
        """The model thinks; its words are shown when it has done."""
        self._open_thought()

    def write_call(self, delta: ToolCallDelta) -> None:
        """The model writes a call: a line says so, unless the call will join the line above."""
        last = self._entries[-1] if self._entries else None
        if isinstance(last, StepEntry) and last.step.name == delta.name and looks(last.step.preview):
            return
        self._sheet.put(_WRITING_ID, "step", step_html(_writing(delta.name)))

    def pause(self) -> None:
        """Something else is shown in the midst of an answer: what is said after it stands behind it."""
        if self._answer is not None:
            self._before += self._answer.text
            self._answer.finish(self._answer.text)
            self._answer = None

    def add(self, message: AssistantMessage) -> None:
        """Take a whole message; what was shown of it while it came is brought into its final form."""
        self._sheet.remove(_WRITING_ID)
        self._end_thought("".join(part.text for part in message.parts if isinstance(part, ReasoningPart)))
        self.last = message.text
        rest = self.last.removeprefix(self._before)
        if rest.strip() or self._answer is not None:
            self._open_answer().finish(rest)
        self._answer, self._before = None, ""

    def end(self) -> bool:
        """The run is over; whether it ended in the middle of an answer."""
        self._sheet.remove(_WRITING_ID)
        self._end_thought("")
        if self._answer is None and not self._before:
            return False
        text = self._answer.text if self._answer is not None else ""
        self.last = self._before + text
        if self._answer is not None:
            self._answer.finish(text)
        self._answer, self._before = None, ""
        return True

    def _open_answer(self) -> Answer:
        if self._answer is None:
            self._answer = Answer(self._sheet)
            self._entries.append(self._answer)
        return self._answer

    def _open_thought(self) -> StepEntry:
        if self._thought is None:
            self._thought = StepEntry(self._sheet.new_id("r"), _THINKING)
            self._entries.append(self._thought)
            self._sheet.put(self._thought.part_id, "step", step_html(_THINKING))
        return self._thought

    def _end_thought(self, text: str) -> None:
        if text.strip():
            thought = self._open_thought()
            thought.step = replace(thought.step, outcome="ok", display={"text/plain": text})
            self._sheet.put(thought.part_id, "step", step_html(thought.step))
        elif self._thought is not None:
            self._entries.remove(self._thought)
            self._sheet.remove(self._thought.part_id)
        self._thought = None


def _writing(name: str) -> Step:
    """The line while a call is being written."""
    is_code = name in ("", "run_code")
    doing = "Writing code" if is_code else "Preparing"
    return Step(Headline(verb=doing, doing=doing, asking=doing, target="" if is_code else name), name)
