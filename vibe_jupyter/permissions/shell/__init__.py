"""Which shell commands run without asking, and the verdict on one. Start reading in `judge`.

A command is read twice, by a small grammar of our own and by tree-sitter's; then each of its simple commands is
judged by a table of its own. tree-sitter is imported with the first command, not before.
"""

from typing import Final, Literal, NamedTuple

from vibe_jupyter.errors import VibeError

Verdict = Literal["allow", "ask", "deny"]
Rule = Literal[
    "read-only",  # allowed: every part is known to be read-only inside the project
    "allowlist",  # allowed: the rest is on the user's own list
    "denylist",
    "cannot-run",  # no shell takes it
    "length",
    "characters",  # control or invisible ones
    "syntax",  # not of the form whose effects can be told
    "expansion",  # the shell would put something else in its place
    "redirection",
    "name",  # not a command known to be read-only
    "option",
    "operand",
    "input",  # it would wait for input
    "grammar",  # tree-sitter cannot be loaded, so nothing can be told
    "place",  # outside the project, protected, or no regular file
    "repository",  # git would run programs that the repository names, or read outside
    "high risk",  # cannot be undone, leaves this computer, affects others or reads secrets
]
HIGH_RISK: Final[Rule] = "high risk"
"""What no permission covers that was given on a card or for one run: only a setting of the user's own."""
ONCE: Final[frozenset[Rule]] = frozenset({"place", "repository", "characters", "length", "grammar"})
"""What is asked about in every mode, and is approved once at a time."""


class ShellVerdict(NamedTuple):
    """May this command run?"""

    verdict: Verdict
    rule: Rule
    reason: str
    """A clause that goes on after the command: ``reads outside the project: /etc/passwd``."""
    remember_as: str | None = None
    """The normalised commands a grant would cover; None where only a single approval may be given."""
    keepable: bool = False
    """Whether a grant may outlast the session: not for programs that run whatever they are given."""


class UnknownCommand(VibeError):
    """A part of a command is not known to be harmless, so the user is asked."""

    def __init__(self, rule: Rule, reason: str) -> None:
        super().__init__(reason)
        self.rule: Rule = rule
        self.reason = reason
