"""Places of the steps of sub-agents: behind the call that each works for."""

from collections.abc import Mapping, Sequence

from vibe_jupyter.ui.step import StepEntry, TranscriptEntry


def find_caller(calls: Mapping[str, StepEntry], call_id: str) -> StepEntry | None:
    """The call for which a sub-agent works: the ids of its calls begin with the id of that one."""
    return next((one for known, one in calls.items() if call_id.startswith(f"{known}/")), None)


def next_place(entries: Sequence[TranscriptEntry], caller: StepEntry | None) -> int:
    """Where the next call of the agent goes, or of the sub-agent that works for `caller`: behind those it made."""
    place = len(entries)
    while caller is not None and not _works_for(entries[place - 1], caller):
        place -= 1
    return place


def part_behind(entries: Sequence[TranscriptEntry], call: StepEntry) -> str | None:
    """The part in front of which a sub-agent's call goes; None for the end."""
    if call.caller is None:
        return None
    behind = entries[next(place for place, one in enumerate(entries) if one is call) + 1 :]
    return next((one.part_id for one in behind if isinstance(one, StepEntry) and one.part_id != call.part_id), None)


def _works_for(entry: TranscriptEntry, caller: StepEntry) -> bool:
    return entry is caller or (isinstance(entry, StepEntry) and entry.caller is caller)
