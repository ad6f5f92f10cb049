"""The transcript: the user's view of a run, folded from its events.

No I/O: `apply` turns an event into patches of the live view, `parts` returns the whole view, and `bundle` the form that
is saved in the notebook. The same events always give the same bundle.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from vibe_jupyter.protocol import (
    PLAN_MIME,
    AnswerAwaited,
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    Event,
    FileProduced,
    Headline,
    HistoryRewritten,
    MessageAdded,
    MimeBundle,
    Notice,
    Plan,
    QuestionAnswered,
    QuestionAsked,
    ReasoningDelta,
    ReasoningPart,
    RequestSent,
    RunFinished,
    RunStarted,
    TextDelta,
    ToolCallDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnStarted,
)
from vibe_jupyter.ui import status_line
from vibe_jupyter.ui.cards import argument_text, card_html, question_card_html
from vibe_jupyter.ui.cell_references import FindCell, no_cell, with_cell_words
from vibe_jupyter.ui.changed_line import changed_names
from vibe_jupyter.ui.front_end import EVERYTHING, RunRetention
from vibe_jupyter.ui.nested_steps import find_caller, next_place, part_behind
from vibe_jupyter.ui.page import FOOT, PartList, ViewPart, ViewPatch
from vibe_jupyter.ui.plan import PLANNER, PlanEntry, plan_html, read_plan
from vibe_jupyter.ui.review_card import OpenReview, review_html
from vibe_jupyter.ui.run_clock import RunClock
from vibe_jupyter.ui.run_output import KeptPiece
from vibe_jupyter.ui.static_html import PieceEnds, static_bundle, static_pieces
from vibe_jupyter.ui.status_line import StatusLine, end_words, foot_html, foot_line
from vibe_jupyter.ui.step import (
    GROUP_LIMIT,
    PROGRESS_LIMIT,
    THOUGHT,
    WORDS_LIMIT,
    CallProgressState,
    NoticeEntry,
    Step,
    StepEntry,
    TranscriptEntry,
    file_step,
    finished_step,
    group_html,
    is_read_only,
    step_html,
)
from vibe_jupyter.ui.streaming_text import StreamingText
from vibe_jupyter.ui.text import one_line, readable_text

CallEvent = (
    ApprovalRequested
    | ApprovalResolved
    | QuestionAsked
    | QuestionAnswered
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | FileProduced
)

# Result line of a call that was decided by something other than the user.
_UNANSWERED = {
    "nobody": "non-interactive session",
    "server": "expired: the server stopped waiting",
    "rules": "not as edited",
}

_THINKING = Step(Headline(verb="Thought", doing="Thinking", asking="", target=""), THOUGHT)
_WRITING_ID = "writing"
_PLAN_ID = "plan"


class TranscriptCalls:
    """Steps of the calls, folded from their events."""

    def __init__(
        self, sheet: PartList, entries: list[TranscriptEntry], clock: Callable[[], float], find_cell: FindCell
    ) -> None:
        self._sheet = sheet
        self._clock = clock
        self._find_cell = find_cell
        self._entries = entries
        self._calls: dict[str, StepEntry] = {}
        # Call id by id of the approval, the question, or the call whose code waits for input.
        self._waiting: dict[str, str] = {}
        self._reviews: dict[str, OpenReview] = {}  # by id
        # Current group of consecutive read-only calls of one tool, displayed as one part.
        self._group: list[StepEntry] = []
        self._groups: dict[str, list[StepEntry]] = {}  # by part id
        self._plan: PlanEntry | None = None  # the plan, once there is one

    @property
    def waiting(self) -> bool:
        """True if a card or running code waits for the user."""
        return bool(self._waiting)

    def entry_of(self, call_id: str) -> StepEntry | None:
        """Return the step of a call; for an unknown call, such as a sub-agent's, the latest step."""
        return self._calls.get(call_id) or next((one for one in reversed(self._calls.values())), None)

    def forget_ids(self) -> None:
        """Forget call ids, since the calls of a new message may reuse them."""
        self._calls.clear()

    def apply(self, event: CallEvent) -> None:
        """Update the call's part."""
        match event:
            case ApprovalRequested():
                self._show_card(event)
            case ApprovalResolved():
                self._resolve_card(event)
            case QuestionAsked():
                self._put_question(event)
            case QuestionAnswered():
                self._take_question(event)
            case ToolStarted():
                self._start_call(event)
            case ToolProgress():
                self._show_progress(event)
            case ToolFinished():
                self._finish_call(event)
            case FileProduced():
                step = file_step(event)
                self._show_step(self._call_entry(self._sheet.new_id("f"), step), step)

    def refresh_times(self) -> None:
        """Update the elapsed time of running calls."""
        for call in self._calls.values():
            if call.began is not None and call.step.outcome == "running":
                self._show_step(call, call.step)

    def end(self) -> None:
        """Mark calls that are still running as interrupted, since the run is over."""
        self._waiting.clear()
        for call in self._calls.values():
            if call.step.outcome == "running":
                seconds = None if call.began is None else self._clock() - call.began
                self._show_step(call, replace(call.step, outcome="interrupted", seconds=seconds))

    def _show_card(self, event: ApprovalRequested) -> None:
        kept = event.kept or event
        call = self._call_entry(event.call.id, Step(kept.headline, kept.call.name, kept.preview))
        if call.step.trial:  # output of the trial doesn't belong to the call that the card is about
            call.step = replace(call.step, headline=kept.headline, trial=False, output="", progress=None)
        call.began = None
        self._waiting[event.approval_id] = event.call.id
        if event.review is None:
            self._sheet.put(call.part_id, "card", card_html(event, self._find_cell), part_behind(self._entries, call))
            return
        review = self._reviews.setdefault(event.review.id, OpenReview(self._sheet.new_id("v")))
        review.requests.append(event)
        if len(review.requests) == event.review.size:
            self._sheet.put(review.part_id, "card", review_html(review.requests, self._find_cell))

    def _resolve_card(self, event: ApprovalResolved) -> None:
        self._waiting.pop(event.approval_id, None)
        self._close_reviews()
        call = self._calls.get(event.call_id)
        if call is None or event.outdated:
            return  # another card or the end of the call replaces it
        if event.allowed:
            step = _as_allowed(call.step, event.arguments)
            decided = "edited and allowed" if step.edited else "allowed"
        else:
            summary = event.message or _UNANSWERED.get(event.by, "")
            outcome = "interrupted" if event.by == "interrupt" else "denied"
            step, decided = replace(call.step, outcome=outcome, summary=summary), "denied"
        self._show_step(call, replace(step, by_code=decided if event.by == "code" else ""))

    def _close_reviews(self) -> None:
        """Remove review cards whose changes are all decided."""
        for review_id, review in tuple(self._reviews.items()):
            if not any(request.approval_id in self._waiting for request in review.requests):
                self._sheet.remove(review.part_id)
                del self._reviews[review_id]

    def _put_question(self, event: QuestionAsked) -> None:
        call = self._calls.get(event.call_id)
        if call is not None:
            call.began = None
            self._waiting[event.question_id] = event.call_id
            self._sheet.put(call.part_id, "card", question_card_html(event))

    def _take_question(self, event: QuestionAnswered) -> None:
        self._waiting.pop(event.question_id, None)
        call = self._calls.get(event.call_id)
        if call is not None:
            self._show_step(call, replace(call.step, by_code="answered") if event.by == "code" else call.step)

    def _start_call(self, event: ToolStarted) -> None:
        if event.name == PLANNER and event.call_id not in self._calls:
            return  # the plan is displayed when the call has finished
        if event.call_id not in self._calls and is_read_only(event.preview):
            self._join_group(event)
        call = self._call_entry(event.call_id, Step(event.headline))
        call.began = self._clock()
        preview = event.preview or call.step.preview
        known = {"headline": event.headline, "name": event.name, "preview": preview, "trial": event.trial}
        if call.step.trial:
            known |= {"output": "", "progress": None}
        self._show_step(call, replace(call.step, **known))

    def _show_progress(self, event: ToolProgress) -> None:
        call = self._calls.get(event.call_id)
        if event.waits is not None:
            self._input_waits(event.call_id, event.waits)
        elif call is None or call.began is None:
            return  # late output of a trial: the step would replace its card
        elif event.done is not None:
            self._show_step(call, replace(call.step, progress=CallProgressState(event.done, event.total, event.text)))
        else:
            output = (call.step.output + event.text)[-PROGRESS_LIMIT:]
            self._show_step(call, replace(call.step, output=output))

    def _input_waits(self, call_id: str, waits: bool) -> None:
        if waits:
            self._waiting[call_id] = call_id
        else:
            self._waiting.pop(call_id, None)

    def _finish_call(self, event: ToolFinished) -> None:
        self._input_waits(event.call_id, False)
        plan = read_plan(event.display[PLAN_MIME]) if PLAN_MIME in event.display else None
        if plan is not None:
            self._show_plan(plan)
            if event.call_id not in self._calls:
                return
        call = self._call_entry(event.call_id, Step(event.headline))
        self._show_step(call, finished_step(call.step, event))

    def _show_plan(self, plan: Plan) -> None:
        """Show the plan where it was first made."""
        if self._plan is None and plan.items:
            self._plan = PlanEntry(plan)
            self._entries.append(self._plan)
        if self._plan is not None:
            self._plan.plan = plan
            self._sheet.put(_PLAN_ID, "step", plan_html(plan))

    def _call_entry(self, call_id: str, step: Step) -> StepEntry:
        call = self._calls.get(call_id)
        if call is None:
            caller = find_caller(self._calls, call_id)
            call = self._calls[call_id] = StepEntry(self._sheet.new_id("s"), step, caller)
            self._entries.insert(next_place(self._entries, caller), call)
        return call

    def _join_group(self, event: ToolStarted) -> None:
        """Add a read-only call to the previous call's group if both are of the same tool."""
        last, caller = self._group[-1] if self._group else None, find_caller(self._calls, event.call_id)
        place = next_place(self._entries, caller)
        follows = last is not None and self._entries[place - 1] is last and last.step.name == event.name
        if last is None or not follows or len(self._group) >= GROUP_LIMIT:
            last, self._group = None, []
        part_id = self._sheet.new_id("s") if last is None else last.part_id
        call = self._calls[event.call_id] = StepEntry(part_id, Step(event.headline, event.name), caller)
        self._entries.insert(place, call)
        self._group = [*self._group, call]
        self._groups[part_id] = self._group

    def _show_step(self, call: StepEntry, step: Step) -> None:
        call.step = replace(step, so_far=None if call.began is None else self._clock() - call.began)
        steps = [one.step for one in self._groups.get(call.part_id, ())]
        nested = call.caller is not None
        html = group_html(steps, nested=nested) if len(steps) > 1 else step_html(call.step, nested=nested)
        self._sheet.put(call.part_id, "step", html, part_behind(self._entries, call))


def _as_allowed(step: Step, arguments: str | None) -> Step:
    """Return the step with the user's edits."""
    if arguments is None or step.preview is None:
        return step
    text = argument_text(arguments, step.preview.edits)
    preview = step.preview if text is None else step.preview.model_copy(update={"text": text})
    return replace(step, preview=preview, edited=True)


class Transcript:
    """Folded view of one run. Used by one thread at a time."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        keep: RunRetention = EVERYTHING,
        working: str = "Working",
        find_cell: FindCell = no_cell,
    ) -> None:
        self.find_cell = find_cell  # resolves cell references of the model
        self._clock = clock
        self._keep = keep
        self._working = working  # status line while the run works
        self._time = RunClock(clock)
        self._sheet = PartList()
        self._entries: list[TranscriptEntry] = []
        self._speech = AssistantText(self._sheet, self._entries, clock, find_cell)
        self._calls = TranscriptCalls(self._sheet, self._entries, clock, find_cell)
        self.ends = PieceEnds(self._entries)  # divides the saved output
        self._foot = StatusLine(words=working)
        self._silent_since = 0.0  # when the model server last sent something, while the run waits for it
        self._refresh_wait: Callable[[], None] = lambda: None  # updates the countdown of the latest wait

    def apply(self, event: Event) -> list[ViewPatch]:
        """Apply the next event. The returned patches update a page that shows `parts`."""
        before = self._foot
        self._take_event(event)
        # No patch for elapsed seconds, which the page counts itself.
        if self._foot is not before and (self._foot.is_over or replace(self._foot, seconds=before.seconds) != before):
            self._sheet.put(FOOT, "foot", foot_html(self._foot))
        return self._sheet.take_patches()

    def fold(self, event: Event) -> None:
        """Apply the next event without patches, while no page shows the run."""
        self._take_event(event)
        self._sheet.take_patches()

    def parts(self) -> list[ViewPart]:
        """Return the whole live view, with its clock updated."""
        if not self._foot.is_over:
            self._refresh_wait()
            self._calls.refresh_times()
            silent = None if self._foot.silent is None else self._clock() - self._silent_since
            self._foot = replace(self._foot, seconds=self._time.worked, silent=silent)
        self._sheet.put(FOOT, "foot", foot_html(self._foot))
        self._sheet.take_patches()  # a complete snapshot needs no patch
        return self._sheet.parts()

    def bundle(self) -> MimeBundle:
        """Return the form saved in the notebook: self-contained ``text/html``, and short ``text/plain``."""
        over = self._foot if self._foot.is_over else replace(self._foot, state="stopped", words="Stopped")
        return static_bundle(self._entries, over, self.answer_text, keep=self._keep)

    def held(self) -> MimeBundle:
        """Return the form of an unfinished run, for a document that may be all that remains of it."""
        return static_bundle(self._entries, self._cut_off(), self.answer_text, keep=self._keep)

    def pieces(self) -> list[MimeBundle]:
        """Return `bundle` in pieces, divided where outputs of calls are in the cell."""
        over = self._foot if self._foot.is_over else replace(self._foot, state="stopped", words="Stopped")
        return static_pieces(self._entries, over, self.answer_text, keep=self._keep, ends=self.ends.steps)

    def held_pieces(self) -> list[KeptPiece]:
        made = static_pieces(self._entries, self._cut_off(), self.answer_text, keep=self._keep, ends=self.ends.steps)
        steps = ["", *(entry.part_id for entry in self.ends.steps)]
        return [KeptPiece(bundle, step) for bundle, step in zip(made, steps, strict=True)]

    def divide(self, call_id: str) -> None:
        """End a piece after this call's step, since the cell contains its outputs."""
        self.ends.add(self._calls.entry_of(call_id))

    def so_far(self) -> MimeBundle:
        """Return everything of an unfinished run, whatever the settings of the saved form."""
        return static_bundle(self._entries, self._foot, self.answer_text)

    @property
    def answer_text(self) -> str:
        """The text of the model's last message, with cell references resolved."""
        said = self._speech.last
        return with_cell_words(said, self.find_cell) if "{{" in said else said

    @property
    def end_words(self) -> str:
        """The final state and any errors as text, for screen readers."""
        errors = [entry.text for entry in self._entries if isinstance(entry, NoticeEntry) and entry.level == "error"]
        return readable_text(". ".join([self._foot.words, *errors]))

    @property
    def foot_line(self) -> str:
        """The status line as plain text."""
        return foot_line(self._foot)

    def _cut_off(self) -> StatusLine:
        over = {"state": "stopped", "words": status_line.NOT_OVER}
        return replace(self._foot, **over, seconds=self._time.worked, waited=self._time.waited)

    def _take_event(self, event: Event) -> None:
        if isinstance(event, ApprovalRequested | ToolStarted | FileProduced):
            self._speech.pause()
        self._fold_event(event)
        is_plain = isinstance(event, TextDelta | ReasoningDelta | ToolCallDelta | ToolProgress)
        if not is_plain or getattr(event, "waits", None) is not None or self._foot.silent is not None:
            self._foot = self._foot_after(event)

    def _fold_event(self, event: Event) -> None:
        match event:
            case TextDelta():
                self._speech.say(event.text)
            case ReasoningDelta():
                self._speech.think()
            case ToolCallDelta():
                self._speech.write_call(event)
            case MessageAdded():
                self._add_message(event)
            case ApprovalRequested() | ApprovalResolved() | QuestionAsked() | QuestionAnswered():
                self._calls.apply(event)
            case ToolStarted() | ToolProgress() | ToolFinished() | FileProduced():
                self._calls.apply(event)
            case Notice():
                self._add_notice(event.level, event.text, wait=event.wait)
            case RunStarted() | TurnStarted() | RequestSent() | AnswerAwaited() | HistoryRewritten():
                pass
            case RunFinished():
                self._end_run(event)
            case _ as rest:
                assert_never(rest)

    def _add_message(self, event: MessageAdded) -> None:
        message = event.message
        if not isinstance(message, AssistantMessage):
            return
        self._calls.forget_ids()
        self._speech.add(message)
        if not event.in_history:
            self._add_notice("warning", status_line.CUT_SHORT)
        elif message.stop_reason == "length":
            self._add_notice("warning", status_line.CUT_BY_LENGTH)

    def _add_notice(self, level: str, text: str, *, wait: float = 0.0) -> None:
        kind = "warning" if level == "warning" else "info"
        self._entries.append(NoticeEntry(kind, text))
        part_id = self._sheet.new_id("n")
        self._sheet.put(part_id, "notice", status_line.notice_html(kind, text, wait))
        if wait > 0:
            until = self._clock() + wait
            self._refresh_wait = lambda: self._sheet.put(
                part_id, "notice", status_line.notice_html(kind, text, until - self._clock())
            )

    def _end_run(self, event: RunFinished) -> None:
        if self._speech.end():
            self._add_notice("warning", status_line.CUT_SHORT)
        self._calls.end()
        if event.reason == "refused":
            self._add_notice("warning", status_line.REFUSED)
        if event.error:
            self._entries.append(NoticeEntry("error", event.error))
            self._sheet.put(self._sheet.new_id("e"), "error", status_line.error_html(event.error))

    def _foot_after(self, event: Event) -> StatusLine:
        self._time.note(waits=self._calls.waiting)
        foot = replace(self._foot, seconds=self._time.worked, silent=None)
        match event:
            case AnswerAwaited() if not self._calls.waiting:
                self._silent_since = self._clock() - event.seconds
                return status_line.awaiting(foot, event)
            case RunStarted():
                foot = replace(
                    foot,
                    model=event.model,
                    provider=event.provider,
                    agent=event.agent,
                    schema_only=event.schema_only,
                )
            case TurnStarted():
                foot = replace(foot, turn=event.turn, context=event.context)
            case MessageAdded(message=AssistantMessage() as message):
                foot = status_line.after_answer(foot, message)
            case _:
                pass
        if isinstance(event, RunFinished):
            state, words = end_words(event.reason)
            known = {"turn": event.turns, "usage": event.usage, "cost": event.cost}
            changed = changed_names(event.changed, self.find_cell) if event.changed else ()
            took = {"seconds": event.seconds, "waited": event.waited}
            return replace(foot, state=state, words=words, changed=changed, **known, **took)
        waits = self._calls.waiting
        words = "Waiting for you" if waits else self._working
        return replace(foot, state="waiting" if waits else "working", words=words)


class AssistantText:
    """The model's text and thinking, folded from deltas and messages."""

    def __init__(
        self, sheet: PartList, entries: list[TranscriptEntry], clock: Callable[[], float], find_cell: FindCell
    ) -> None:
        self.last = ""  # text of the last message
        self._sheet = sheet
        self._entries = entries
        self._clock = clock
        self._find_cell = find_cell
        self._answer: StreamingText | None = None  # the text being streamed
        self._before = ""  # text of the same answer before a pause
        self._thought: StepEntry | None = None  # the current thought
        self._thought_for = 0.0  # seconds between its first and last delta

    def say(self, text: str) -> None:
        """Append a chunk of the answer."""
        self._open_answer().add(text)

    def think(self) -> None:
        """Record that the model is thinking. Its text is displayed once complete."""
        thought, now = self._open_thought(), self._clock()
        thought.began = now if thought.began is None else thought.began
        self._thought_for = now - thought.began

    def write_call(self, delta: ToolCallDelta) -> None:
        """Show that the model is writing a call, unless the call will join the group above."""
        if delta.name == PLANNER:
            return
        last = self._entries[-1] if self._entries else None
        if isinstance(last, StepEntry) and last.step.name == delta.name and is_read_only(last.step.preview):
            return
        self._sheet.put(_WRITING_ID, "step", step_html(_writing_step(delta.name)))

    def pause(self) -> None:
        """End the current text part, since something else is displayed next. Later text goes after it."""
        if self._answer is not None:
            self._before += self._answer.text
            self._answer.finish(self._answer.text)
            self._answer = None

    def add(self, message: AssistantMessage) -> None:
        """Add a complete message. Text already shown while streaming gets its final form."""
        self._sheet.remove(_WRITING_ID)
        self._end_thought("".join(part.text for part in message.parts if isinstance(part, ReasoningPart)))
        self.last = message.text
        rest = self.last.removeprefix(self._before)
        if rest.strip() or self._answer is not None:
            self._open_answer().finish(rest)
        self._answer, self._before = None, ""

    def end(self) -> bool:
        """End the run. Returns whether it ended in the middle of an answer."""
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

    def _open_answer(self) -> StreamingText:
        if self._answer is None:
            self._answer = StreamingText(self._sheet, self._find_cell)
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
            display, words = {"text/plain": text}, one_line(text, WORDS_LIMIT)
            seconds = self._thought_for or None
            thought.step = replace(thought.step, outcome="ok", display=display, summary=words, seconds=seconds)
            self._sheet.put(thought.part_id, "step", step_html(thought.step))
        elif self._thought is not None:
            self._entries.remove(self._thought)
            self._sheet.remove(self._thought.part_id)
        self._thought, self._thought_for = None, 0.0


def _writing_step(name: str) -> Step:
    """Return the step displayed while a call is being written."""
    is_code = name in ("", "run_code")
    doing = "Writing code" if is_code else "Preparing"
    return Step(Headline(verb=doing, doing=doing, asking=doing, target="" if is_code else name), name or "run_code")
