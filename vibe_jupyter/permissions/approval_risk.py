"""How much an approval weighs, and what each part of the call does: what a card shows beside the call itself."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from vibe_jupyter.files.workspace import Located, Workspace
from vibe_jupyter.protocol import ALLOW_ONCE, Effect, Resource, Risk
from vibe_jupyter.safe_imports import without_working_folder

ACTIONS_SHOWN: Final = 3
"""Effects that the label of a button names."""


class ApprovalRisk(NamedTuple):
    """What a card says of a call."""

    risk: Risk = "medium"
    effects: tuple[Effect, ...] = ()
    """One for each part of a shell command; none for other calls."""

    @property
    def label(self) -> str:
        """What the button for yes says: of a call that weighs high, what it does."""
        actions = list(dict.fromkeys(effect.action for effect in self.effects if effect.risk == "high"))
        if self.risk != "high":
            return ALLOW_ONCE
        if not actions:
            return "Read secrets"
        shown = actions if len(actions) <= ACTIONS_SHOWN else [*actions[: ACTIONS_SHOWN - 1], "more"]
        text = " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
        return f"{text[:1].upper()}{text[1:]}"


def weigh_call(resources: Sequence[Resource], places: Mapping[str, Located], workspace: Workspace) -> ApprovalRisk:
    """What a call that asks weighs. It may count files, which takes up to `MEASURING_SECONDS`: call it on a thread."""
    commands = [one.value for one in resources if one.kind == "command"]
    if commands:
        return _weigh_commands(commands, workspace)
    read = [places[one.value] for one in resources if one.kind == "path" and one.access == "read"]
    if any(place.protection("read") is not None for place in read):
        return ApprovalRisk("high")
    only_reads = bool(resources) and all(one.access == "read" and one.kind in ("path", "variable") for one in resources)
    return ApprovalRisk("low" if only_reads else "medium")


def _weigh_commands(commands: Sequence[str], workspace: Workspace) -> ApprovalRisk:
    try:
        with without_working_folder():
            # Its grammar only where it is needed.
            from vibe_jupyter.permissions.shell.effects import explain_command, worst_risk  # noqa: PLC0415
    except ImportError:
        return ApprovalRisk()
    effects = [effect for command in commands for effect in explain_command(command, workspace, measure=True)]
    return ApprovalRisk(worst_risk(effects), tuple(Effect(**effect._asdict()) for effect in effects))
