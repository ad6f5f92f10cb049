"""Order of sub-agents' steps: each goes after the call it works for."""

from collections.abc import Mapping, Sequence

from vibe_jupyter.ui.step import StepEntry, TranscriptEntry


def find_caller(calls: Mapping[str, StepEntry], call_id: str) -> StepEntry | None:
    """Return the call that a sub-agent works for. The ids of its calls start with that call's id."""
    return next((one for known, one in calls.items() if call_id.startswith(f"{known}/")), None)


def next_place(entries: Sequence[TranscriptEntry], caller: StepEntry | None) -> int:
    """Return the index for the next call: the end, or for a sub-agent, after its previous calls."""
    place = len(entries)
    while caller is not None and not _works_for(entries[place - 1], caller):
        place -= 1
    return place


def part_behind(entries: Sequence[TranscriptEntry], call: StepEntry) -> str | None:
    """Return the id of the part to insert a sub-agent's call before, or None for the end."""
    if call.caller is None:
        return None
    behind = entries[next(place for place, one in enumerate(entries) if one is call) + 1 :]
    return next((one.part_id for one in behind if isinstance(one, StepEntry) and one.part_id != call.part_id), None)


def _works_for(entry: TranscriptEntry, caller: StepEntry) -> bool:
    return entry is caller or (isinstance(entry, StepEntry) and entry.caller is caller)
