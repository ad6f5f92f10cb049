"""What the person allowed for more than one call: until the session ends, or for this project."""

from collections.abc import Sequence
from typing import Final, Literal

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.policy.kept_grants import KeptGrants
from vibe_jupyter.policy.shell.pattern import parts

Scope = Literal["session", "project"]

NEVER_KEPT: Final = frozenset({"run_code", "run_cell", "verify_notebook", "bash"})
"""Tools that run any code: no grant for them outlasts the session, whatever a file says."""


class Grants:
    """Patterns of two scopes. A pattern is a tool's name, or whole shell commands word for word."""

    def __init__(self, kept: KeptGrants | None = None) -> None:
        self._kept = kept
        self._session: set[str] = set()

    def add(self, pattern: str, scope: Scope) -> Scope:
        """Allow it; returns the scope that could be given. What cannot be kept holds for the session."""
        patterns = parts(pattern)
        if scope == "project" and self._kept is not None and not NEVER_KEPT.intersection(patterns):
            try:
                self._kept.add(patterns)
                return "project"
            except (OSError, ConfigError):
                pass
        self._session.update(patterns)
        return "session"

    def covers(self, pattern: str, *, keepable: bool) -> str:
        """Which grant covers all of it, in words; empty if none does.

        Args:
            pattern: what `Ask.remember_as` would say of the call.
            keepable: whether a grant for this call may be kept at all.
        """
        patterns = parts(pattern)
        if not patterns:
            return ""
        if self._session.issuperset(patterns):
            return "allowed for this session"
        kept = self._of_project() if keepable else ()
        return "allowed for this project" if self._session.union(kept).issuperset(patterns) else ""

    def session(self) -> tuple[str, ...]:
        """What holds until the session ends, sorted."""
        return tuple(sorted(self._session))

    def forget_session(self) -> None:
        """Take back what holds for the session."""
        self._session.clear()

    def forget_beginning(self, words: str) -> None:
        """Take back what holds for the session and begins so: these names mean something else now."""
        self._session = {pattern for pattern in self._session if not pattern.startswith(words)}

    def listing(self) -> str:
        """What is allowed, numbered for `revoke`."""
        numbered = self._numbered()
        if not numbered:
            return f"Nothing is allowed beforehand.{self._problem()}"
        titles = {"session": "Until this session ends:", "project": "For this project, in every session:"}
        lines: list[str] = []
        for number, (scope, pattern) in enumerate(numbered, 1):
            if titles.get(scope):
                lines.append(titles.pop(scope))
            lines.append(f"  {number}  {pattern}")
        lines.append("Take back: %vibe permissions revoke NUMBER, or session, project, all.")
        if self._kept is not None and "project" not in titles:
            lines.append(f"Those for the project are kept in {self._kept.path}.")
        return "\n".join(lines) + self._problem()

    def revoke(self, words: str) -> str:
        """Take back what `words` names: numbers of the listing, ``session``, ``project``, ``all``, or a pattern.

        Raises:
            ConfigError: it names nothing that is allowed, or the kept file cannot be changed.
        """
        numbered = self._numbered()
        chosen = _chosen(words.strip(), numbered)
        kept = [pattern for scope, pattern in chosen if scope == "project"]
        if kept and self._kept is not None:
            try:
                self._kept.remove(kept)
            except OSError as error:
                raise ConfigError(f"Cannot write {self._kept.path}: {error.strerror}. Nothing was revoked.") from error
        self._session.difference_update(pattern for scope, pattern in chosen if scope == "session")
        if not chosen:
            return "Nothing was allowed."
        return "Asked about again: " + ", ".join(dict.fromkeys(pattern for _, pattern in chosen)) + "."

    def _numbered(self) -> list[tuple[Scope, str]]:
        out: list[tuple[Scope, str]] = [("session", pattern) for pattern in self.session()]
        return out + [("project", pattern) for pattern in sorted(self._of_project())]

    def _of_project(self) -> set[str]:
        if self._kept is None:
            return set()
        try:
            return set(self._kept.patterns()) - NEVER_KEPT
        except ConfigError:
            return set()

    def _problem(self) -> str:
        try:
            if self._kept is not None:
                self._kept.patterns()
        except ConfigError as error:
            return f"\n{error}"
        return ""


def _chosen(words: str, numbered: Sequence[tuple[Scope, str]]) -> list[tuple[Scope, str]]:
    if words in ("all", "session", "project"):
        return [entry for entry in numbered if words in ("all", entry[0])]
    named = [entry for entry in numbered if entry[1] == words]
    numbers = words.replace(",", " ").split()
    if not named and all(number.isascii() and number.isdigit() for number in numbers):
        named = [numbered[int(number) - 1] for number in numbers if 0 < int(number) <= len(numbered)]
        named = named if len(named) == len(numbers) else []
    if not named:
        none = f"Nothing that is allowed is called {words!r}." if words else "What is to be taken back?"
        raise ConfigError(
            f"{none} %vibe permissions lists it with numbers; then "
            "%vibe permissions revoke NUMBER, or session, project, all."
        )
    return named
