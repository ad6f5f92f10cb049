"""What a run said and did, in order: the one list that the live view and the kept form are both made of."""

from dataclasses import dataclass
from typing import Literal

from vibe_jupyter.ui.answer import Answer
from vibe_jupyter.ui.step import Step


@dataclass
class StepEntry:
    """A call, or a thought; its step is replaced as it goes on."""

    part_id: str
    step: Step


@dataclass(frozen=True)
class Remark:
    """A word of ours, or the error the run ended with."""

    level: Literal["info", "warning", "error"]
    text: str


Entry = Answer | StepEntry | Remark
