"""Static analysis of shell commands: which run without asking, and the verdict on each. `judge` is the entry point.

A command is parsed twice, by a small grammar of our own and by tree-sitter's, and the results must agree. Each of its
simple commands is then judged by a table. tree-sitter is imported with the first command, not before.
"""

from typing import Final, Literal, NamedTuple

from vibe_jupyter.errors import VibeError

Verdict = Literal["allow", "ask", "deny"]
Rule = Literal[
    "read-only",  # allowed: every part is known to be read-only inside the project
    "allowlist",  # allowed: all other parts are on the user's allowlist
    "denylist",
    "cannot-run",  # no shell accepts it
    "length",
    "characters",  # control or invisible characters
    "syntax",  # outside the supported grammar
    "expansion",  # the shell would substitute something
    "redirection",
    "name",  # not a command known to be read-only
    "option",
    "operand",
    "input",  # it would block on standard input
    "grammar",  # tree-sitter can't be loaded
    "place",  # outside the project, protected, or not a regular file
    "repository",  # git would run programs named by the repository, or read outside the project
    "high risk",  # can't be undone, leaves this computer, affects others, or reads secrets
]
# Never covered by a permission given on a card or for one run, only by the user's own settings.
HIGH_RISK: Final[Rule] = "high risk"
# Asked about in every mode, with an approval that is valid once.
ONCE: Final[frozenset[Rule]] = frozenset({"place", "repository", "characters", "length", "grammar"})


class ShellVerdict(NamedTuple):
    """Verdict on one command."""

    verdict: Verdict
    rule: Rule
    reason: str  # predicate whose subject is the command, such as `reads outside the project: /etc/passwd`
    # Normalized commands a grant would cover, or None if only a single approval is possible.
    remember_as: str | None = None
    # True if a grant may outlast the session, which excludes programs that run whatever they are given.
    keepable: bool = False


class UnknownCommand(VibeError):
    """Raised if part of a command isn't known to be harmless, so that the user is asked."""

    def __init__(self, rule: Rule, reason: str) -> None:
        super().__init__(reason)
        self.rule: Rule = rule
        self.reason = reason
