"""Explain the effect and risk of each part of a shell command. Runs nothing and follows no links.

It explains but never allows: `judge` decides what runs without asking. A part that can't be explained is labeled as
such.
"""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from vibe_jupyter.files.sizes import bytes_text
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.command_line import command_line
from vibe_jupyter.permissions.shell.command_parts import CommandPart, Join, command_parts
from vibe_jupyter.permissions.shell.effect_programs import OWN_SECONDS, explain_program
from vibe_jupyter.permissions.shell.effect_rows import RISKS
from vibe_jupyter.permissions.shell.effect_words import DELETES, LEVELS, NOT_EXPLAINED, Finding, PartCall
from vibe_jupyter.permissions.shell.measuring import Meter

if TYPE_CHECKING:
    from vibe_jupyter.protocol import Risk

INNER_DEPTH: Final = 3  # nesting depth of commands within commands, such as `sudo sh -c '…'`
_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})
_JOINS: Final[dict[Join, str]] = {
    "": "",
    "&&": "Runs only if the part before works (`&&`).",
    "||": "Runs only if the part before fails (`||`).",
    ";": "Runs even if the part before fails (`;`).",
    "|": "Gets what the part before prints (`|`).",
    "&": "Runs while the part before is still running (`&`).",
    "$(": "Runs first; a later part uses what it prints.",
}
# Prefixes of variables that can make programs run other code.
_HOOKS: Final = ("LD_", "DYLD_", "PYTHON", "GIT_", "BASH_", "NODE_")
_HOOK_NAMES: Final = frozenset({"PATH", "IFS", "ENV", "EDITOR", "PAGER", "PROMPT_COMMAND", "PERL5OPT", "RUBYOPT"})


class PartEffect(NamedTuple):
    """Effect of one part of a command. Has the fields of `vibe_jupyter.protocol.Effect`."""

    part: str
    text: str
    detail: str
    tag: str
    risk: "Risk"
    action: str


def worst_risk(effects: Sequence[PartEffect]) -> "Risk":
    """Return the highest risk level of the parts, or "medium" if there are none."""
    return LEVELS[max((LEVELS.index(effect.risk) for effect in effects), default=1)]


def explain_command(command: str, workspace: Workspace, *, measure: bool) -> tuple[PartEffect, ...]:
    """Explain each part of a command, in the order written.

    Args:
        command: The command as bash receives it, in the project folder.
        workspace: The project.
        measure: Whether to measure what is deleted or lost, which takes up to `MEASURING_SECONDS`.
    """
    parts = _parts_of(command, depth=0)
    if parts is None:
        return (_effect(CommandPart(command, []), NOT_EXPLAINED),)
    explaining = _Explaining(workspace, Meter() if measure else None, workspace.root)
    return tuple(explaining.effects(parts))


def _parts_of(command: str, depth: int) -> tuple[CommandPart, ...] | None:
    try:
        command_line(command)
        plain = True
    except UnknownCommand:
        plain = False
    parts = command_parts(command, plain=plain)
    return None if parts is None else tuple(_unwrapped(parts, depth))


def _unwrapped(parts: Sequence[CommandPart], depth: int) -> Iterator[CommandPart]:
    """Replace ``sh -c 'a; b'`` and ``eval 'a; b'`` by their parts if the string is literal."""
    for part in parts:
        inner = _inner_parts(part, depth) if depth < INNER_DEPTH else None
        if inner is None:
            yield part
            continue
        for number, one in enumerate(inner):
            yield replace(
                one,
                join=one.join if number else part.join,
                repeated=one.repeated or part.repeated,
                conditional=one.conditional or part.conditional,
                redirections=one.redirections + (part.redirections if number == len(inner) - 1 else []),
            )


def _inner_parts(part: CommandPart, depth: int) -> tuple[CommandPart, ...] | None:
    words = part.words
    name = os.path.basename(words[0].text) if words else ""
    if name == "eval" and len(words) > 1 and all(word.literal for word in words):
        return _parts_of(" ".join(word.text for word in words[1:]), depth + 1)
    if name in _SHELLS and len(words) == 3 and words[1].text in ("-c", "-lc", "-ec") and words[2].literal:
        return _parts_of(words[2].text, depth + 1)
    return None


@dataclass
class _Explaining:
    workspace: Workspace
    meter: Meter | None
    here: Path | None  # working directory of the next part, or None if unknown
    ends: float = field(default_factory=lambda: time.monotonic() + OWN_SECONDS)
    _depth: int = 0

    def effects(self, parts: Sequence[CommandPart]) -> Iterator[PartEffect]:
        before = ""
        for part in parts:
            finding = self._with_redirections(part, self._finding(part, before))
            yield _effect(part, finding)
            names = [os.path.basename(word.text) for word in part.words[:1]]
            before = names[0] if names else ""

    def _finding(self, part: CommandPart, before: str) -> Finding:
        if not part.words:
            return self._assignment(part)
        if not part.words[0].literal:
            return NOT_EXPLAINED
        name = part.words[0].text
        if name in ("cd", "pushd", "popd"):
            return self._change_folder(part)
        fed_by = (before if part.join == "|" else "") or ("a file" if part.fed else "")
        finding = self._explain(
            PartCall(part.words, self.workspace, self.here, self.meter, self._explain, fed_by, self.ends)
        )
        return NOT_EXPLAINED if RISKS[finding.tag] != "high" and any(map(_is_hook, part.assigns)) else finding

    def _explain(self, call: PartCall) -> Finding:
        """Explain one command, and the commands that it starts."""
        if self._depth > INNER_DEPTH or not call.words[0].literal or call.words[0].wild:
            return NOT_EXPLAINED
        self._depth += 1
        try:
            return explain_program(call)
        finally:
            self._depth -= 1

    def _assignment(self, part: CommandPart) -> Finding:
        if part.redirections and not part.assigns:
            return Finding(f"Creates or empties `{part.redirections[0].target.raw}`", "Changes files")
        if not part.assigns or any(map(_is_hook, part.assigns)):
            return NOT_EXPLAINED
        return Finding(f"Sets {', '.join(f'`{name}`' for name in dict.fromkeys(part.assigns))}", "Harmless")

    def _change_folder(self, part: CommandPart) -> Finding:
        if part.words[0].text == "cd" and len(part.words) == 2 and part.words[1].literal and self.here is not None:
            target = part.words[1]
            certain = not (part.conditional or part.repeated or part.join in ("||", "|", "&"))
            self.here = self.here / target.text if certain and not target.wild and target.text != "-" else None
            return Finding(f"Changes to the folder `{target.raw}`", "Harmless")
        self.here = None
        return Finding("Changes to another folder", "Harmless")

    def _with_redirections(self, part: CommandPart, finding: Finding) -> Finding:
        for redirection in part.redirections:
            target = redirection.target
            if target.text in ("/dev/null", "/dev/stdout", "/dev/stderr"):
                continue
            if target.text.startswith("/dev/"):
                return Finding(f"Writes to the device `{target.raw}`", DELETES, finding.text, f"write to {target.text}")
            appends = redirection.operator.endswith(">>")
            verb = "Appends" if appends else "Writes"
            note = "" if appends else self._overwritten(target.text if target.literal and not target.wild else "")
            if RISKS[finding.tag] == "low":
                text = f"{verb} what `{part.words[0].raw if part.words else part.raw}` prints to `{target.raw}`{note}"
                finding = finding._replace(text=text, tag="Changes files")
            elif part.words:
                detail = " ".join(filter(None, (f"{verb} its output to `{target.raw}`{note}.", finding.detail)))
                finding = finding._replace(detail=detail)
        return finding

    def _overwritten(self, path: str) -> str:
        if self.here is None or not path:
            return ""
        try:
            found = (self.here / path).stat()
        except OSError:
            return ""
        return f", whose content ({bytes_text(found.st_size)}) is replaced" if found.st_size else ""


def _is_hook(name: str) -> bool:
    return name in _HOOK_NAMES or name.startswith(_HOOKS)


def _effect(part: CommandPart, finding: Finding) -> PartEffect:
    block = "Repeated in a loop." if part.repeated else "Runs only under a condition." if part.conditional else ""
    detail = " ".join(filter(None, (finding.detail, _JOINS[part.join], block)))
    return PartEffect(
        part=part.raw,
        text=finding.text,
        detail=detail,
        tag=finding.tag,
        risk=RISKS[finding.tag],
        action=finding.action,
    )
