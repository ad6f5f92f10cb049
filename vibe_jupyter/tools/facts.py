"""What the agent was told to remember of a project: a Markdown file that people can read and edit.

    - `mem_3f2a9c01` (preference, 2026-01-31): Plots have a dark background.
      A second line of a fact is indented.

Lines of another form are the person's own and stay as they are.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, get_args

from vibe_jupyter.tools.own_file import locked, replace_text

FactKind = Literal["fact", "preference", "decision", "context"]
_KIND_OF: Final[dict[str, FactKind]] = {kind: kind for kind in get_args(FactKind)}
MAX_FACTS: Final = 1_000
"""Facts of one project."""
MAX_LENGTH: Final = 2_000
"""Characters of one fact."""
_ID_BYTES: Final = 4
_LINE: Final = re.compile(r"- `(?P<id>mem_[0-9a-f]{8})` \((?P<kind>\w+), (?P<date>\d{4}-\d\d-\d\d)\): (?P<text>.*)")
_MORE: Final = "  "
"""In front of a fact's further lines."""


@dataclass(frozen=True)
class Fact:
    """One thing to remember."""

    id: str
    kind: FactKind
    date: str
    """Day it was added, UTC, ISO 8601."""
    text: str

    def line(self) -> str:
        """How it stands in the file."""
        text = self.text.replace("\n", f"\n{_MORE}")
        return f"- `{self.id}` ({self.kind}, {self.date}): {text}\n"


class FactFile:
    """The facts of one project, read anew each time: the person may edit the file."""

    def __init__(self, folder: Path, project: Path) -> None:
        digest = hashlib.sha256(str(project).encode("utf-8", "surrogateescape")).hexdigest()[:8]
        self.path = folder / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', project.name) or 'root'}-{digest}.md"
        self._title = f"# What the agent remembers of {project}\n\n"

    def facts(self) -> list[Fact]:
        """All facts, oldest first; none where there is no file.

        Raises:
            OSError: it cannot be read.
        """
        return [fact for _, fact in _parse(self._text()) if fact is not None]

    def add(self, text: str, kind: FactKind) -> Fact:
        """Write one more; one of the same words and kind is not written twice.

        Raises:
            OSError: it cannot be written.
            ValueError: there are too many.
        """
        text = "\n".join(line.rstrip() for line in text.strip().splitlines())
        with locked(self.path):
            before = self._text()
            facts = [fact for _, fact in _parse(before) if fact is not None]
            for fact in facts:
                if (fact.text, fact.kind) == (text, kind):
                    return fact
            if len(facts) >= MAX_FACTS:
                raise ValueError(f"{MAX_FACTS:,} facts are remembered; forget some first")
            fact = Fact(f"mem_{secrets.token_hex(_ID_BYTES)}", kind, datetime.now(UTC).date().isoformat(), text)
            before = before or self._title
            replace_text(self.path, before + ("" if before.endswith("\n") else "\n") + fact.line())
        return fact

    def forget(self, fact_id: str) -> Fact | None:
        """Take one out; None where there is none of that id.

        Raises:
            OSError: it cannot be written.
        """
        with locked(self.path):
            pieces = _parse(self._text())
            gone = next((fact for _, fact in pieces if fact is not None and fact.id == fact_id), None)
            if gone is not None:
                replace_text(self.path, "".join(text for text, fact in pieces if fact is not gone))
        return gone

    def _text(self) -> str:
        try:
            return self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""


def matching(facts: list[Fact], query: str) -> list[Fact]:
    """Those that hold words of the query, the best first; all, newest first, for an empty query."""
    words = set(re.findall(r"\w+", query.casefold()))
    if not words:
        return facts[::-1]
    scored = [(sum(word in f"{fact.kind} {fact.text}".casefold() for word in words), fact) for fact in facts]
    return [fact for score, fact in sorted(scored, key=lambda pair: -pair[0]) if score]


def _parse(text: str) -> list[tuple[str, Fact | None]]:
    """The file's pieces in order: the text of each, and the fact it is, if it is one."""
    pieces: list[tuple[str, Fact | None]] = []
    for line in text.splitlines(keepends=True):
        last = pieces[-1][1] if pieces else None
        if found := _LINE.fullmatch(line.rstrip("\n")):
            kind = _KIND_OF.get(found["kind"], "fact")
            pieces.append((line, Fact(found["id"], kind, found["date"], found["text"])))
        elif last is not None and line.startswith(_MORE):
            more = Fact(last.id, last.kind, last.date, f"{last.text}\n{line[len(_MORE) :].rstrip()}")
            pieces[-1] = (pieces[-1][0] + line, more)
        else:
            pieces.append((line, None))
    return pieces
