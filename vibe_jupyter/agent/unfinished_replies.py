"""Replies that are neither final nor runnable calls: whether to ask the model to continue or to end the run."""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm.request import CUTS, NEVER_RUN, NO_CALL, Ended, ModelReply

# Consecutive replies of one kind up to which the model is asked to continue
MOST_IN_A_ROW: Final[Mapping[Ended, int]] = {"doubtful": 2, "cut": 3}

_ASK: Final = (
    "Your last answer holds what looks like a tool call written as text ({doubt}), so nothing was run. If you mean to "
    "call a tool, make a proper tool call. If you only meant to show one, say so in a sentence, and put it in a code "
    "block."
)
_ASKED: Final = "The model wrote a tool call as text that can't be run ({doubt}). It was asked for a proper call."
_GIVEN_UP: Final = (
    "The run did not finish: {model} writes its tool calls as text that can't be run ({doubt}). Its server may lack a "
    "tool parser for this model: start llama.cpp with --jinja, vLLM or SGLang with --tool-call-parser (vLLM also with "
    "--enable-auto-tool-choice), or choose another model."
)


_ASK_FOR_CALL: Final = (
    "Your last answer announced a tool call, but none arrived, so nothing was run. If you mean to call a tool, call it "
    "again. If not, say what you found."
)
_CALL_LOST: Final = "The server announced a tool call, but sent none; asking again."


class Continuation(NamedTuple):
    """Messages with which the run continues."""

    note: str  # for the model; '' if the results of its calls suffice
    notice: str = ""  # for the user


class UnfinishedReplies:
    """Counter of consecutive unfinished replies in one run."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._in_a_row: Counter[Ended] = Counter()

    def take(self, reply: ModelReply) -> Continuation | None:
        """Return how the run continues after a reply, or None if the reply ends it.

        Raises:
            ModelError: the model repeatedly wrote calls that can't be run.
        """
        kind = reply.ended
        self._in_a_row = Counter({kind: self._in_a_row[kind] + 1})
        may_go_on = self._in_a_row[kind] <= MOST_IN_A_ROW.get(kind, 0)
        match kind:
            case "calls":
                return Continuation("")
            case "cut" if may_go_on and reply.message.calls:
                return Continuation("")
            case "cut" if may_go_on and reply.doubt:
                why = NEVER_RUN[CUTS[reply.message.stop_reason]]
                return Continuation(why, "The answer was cut off inside a tool call; asking again.")
            case "doubtful" if reply.doubt == NO_CALL:
                # Some servers say so of every answer: the second one is taken as final.
                return Continuation(_ASK_FOR_CALL, _CALL_LOST) if self._in_a_row[kind] == 1 else None
            case "doubtful" if may_go_on:
                return Continuation(_ASK.format(doubt=reply.doubt), _ASKED.format(doubt=reply.doubt))
            case "doubtful":
                raise ModelError(_GIVEN_UP.format(model=self._model, doubt=reply.doubt), kind="unreadable_call")
            case _:
                return None
