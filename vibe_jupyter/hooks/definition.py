"""Hooks as declared in their files."""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from vibe_jupyter.hooks.tool_aliases import names_in

# Before a tool call, after it, and when the agent is about to end its run.
HookEvent = Literal["pre_tool", "post_tool", "post_agent"]
# Format of the hook, which determines the matcher's dialect and the field names in the JSON on stdin.
HookForm = Literal["vibe", "claude"]

REGEX: Final = "re:"
DEFAULT_TIMEOUT: Final = 60.0  # seconds
LONGEST_TIMEOUT: Final = 600.0  # seconds
LONGEST_MATCHER: Final = 2_000  # characters
MAIN_AGENT: Final = "main"  # matches the agent that took the prompt, whatever its name
_SHOWN_NAME: Final = 60  # characters
_SHOWN_COMMAND: Final = 500  # characters
_WHEN: Final = {"pre_tool": "before", "post_tool": "after", "post_agent": "at the end of a run of"}
# Claude Code compares such matchers with whole names, separated by `|`; all others are regular expressions.
_PLAIN_MATCHER: Final = re.compile(r"[\w|, -]*")


@dataclass(frozen=True)
class Hook:
    """A command, and the calls it is run for."""

    name: str
    event: HookEvent
    command: str
    form: HookForm
    source: Path
    match: str = "*"
    timeout: float = DEFAULT_TIMEOUT  # seconds
    strict: bool = False  # True if a failing post_tool hook withholds the result; a failing pre_tool hook always denies
    # False for `Stop` (main agent), True for `SubagentStop` (sub-agents), None for both.
    for_subagents: bool | None = None

    @property
    def title(self) -> str:
        """Display name: one line, truncated."""
        return f"“{_one_line(self.name, _SHOWN_NAME)}” ({self.source})"

    @property
    def line(self) -> str:
        """The hook and its command in one line, as listed on the trust card and by `%vibe config`."""
        scope = "every tool" if self.match in ("*", "") else _one_line(self.match, _SHOWN_NAME)
        if self.event == "post_agent" and self.match in ("*", ""):
            scope = "every agent"
        return f"{self.source.name}: {_WHEN[self.event]} {scope} runs: {_one_line(self.command, _SHOWN_COMMAND)}"

    def matched_name(self, names: Sequence[str]) -> str | None:
        """Return the name under which the hook selects a tool, or None if it doesn't.

        Args:
            names: The names of our tool.
        """
        known = names_in(self.form, names)
        return next((name for name in known if matches(self.match, name, self.form)), None)

    def selects_agent(self, agent: str, *, is_main: bool) -> bool:
        """Return whether a post_agent hook runs when this agent ends."""
        if self.for_subagents is not None and self.for_subagents == is_main:
            return False
        names = (agent, MAIN_AGENT) if is_main else (agent,)
        return any(matches(self.match, name, self.form) for name in names)


def matches(pattern: str, name: str, form: HookForm) -> bool:
    """Return whether a matcher selects a name. Case-insensitive, so that a guard never misses a spelling."""
    if pattern in ("", "*"):
        return True
    if pattern.startswith(REGEX):
        return re.fullmatch(pattern.removeprefix(REGEX), name, re.IGNORECASE) is not None
    if form == "vibe":
        return fnmatch.fnmatchcase(name.casefold(), pattern.casefold())
    if _PLAIN_MATCHER.fullmatch(pattern):
        return name.casefold() in {one.strip().casefold() for one in re.split(r"[|,]", pattern)}
    return re.search(pattern, name, re.IGNORECASE) is not None


def check_matcher(pattern: str, form: HookForm) -> str:
    """Return what is wrong with a matcher, or "" if it is valid."""
    if len(pattern) > LONGEST_MATCHER:
        return f"it has {len(pattern):,} characters; at most {LONGEST_MATCHER:,} are read"
    expression = pattern.removeprefix(REGEX)
    if form == "vibe" and expression == pattern:
        return ""
    try:
        re.compile("" if pattern == "*" else expression)
    except re.error as error:
        return f"{pattern!r} is not a regular expression: {error}"
    except (OverflowError, RecursionError):
        return "it is counted too far, or nested too deeply, for a regular expression"
    return ""


def _one_line(text: str, limit: int) -> str:
    shown = text if text.isprintable() else repr(text)
    return shown if len(shown) <= limit else f"{shown[:limit]}… ({len(text):,} characters)"
