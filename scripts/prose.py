"""Measure the docstrings and comments of the package: `python scripts/prose.py [PATH ...] [--list]`.

Exits with 1 if a bound is exceeded. Docstrings begin with a verb or a noun (CONTRIBUTING.md), use few of the
idioms that make prose foreign, and add something to the name they stand below.
"""

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

CLAUSES_LIMIT = 0.02  # share of docstrings
IDIOMS_LIMIT = 6.0  # per 1,000 words
NEW_WORDS = 2  # a docstring that adds at most as many words to the name repeats it

_CLAUSE = re.compile(
    r"(What|Whether|Where|Who|Whose|How|When|Of|As|For|In|One|Those|The same|That|Which|By)\b", re.ASCII
)
_IDIOM = re.compile(
    r"\b(told|tells?|stands?|stood|words?|said|says?|hears?|heard|wants?|wanted|keeps?|kept|goes on|as ever|nobody|"
    r"somebody|anew|of its own|of their own|deeds?|by name|in place|at hand|in vain|behind it|looks? at|looked at|"
    r"comes? to|came to|makes? of|held)\b",
    re.IGNORECASE,
)
_STOP = re.compile(r"(a|an|the|of|to|is|are|it|in|for|that|this|and|or|be|its|by|with|on|as|one)\Z")
_COMMENT = re.compile(r"(^|\s)#\s")
_ENDINGS = re.compile(r"(ing|ed|es|s)$")


class Docstring(NamedTuple):
    """One docstring, and the name it describes: '' for a module."""

    place: str
    name: str
    text: str

    @property
    def is_clause(self) -> bool:
        """True if it opens with a clause or a preposition."""
        return _CLAUSE.match(self.text) is not None

    @property
    def repeats_name(self) -> bool:
        """True if it adds next to nothing to the name."""
        own = {_stem(part) for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", self.name)}
        said = {word.lower() for word in re.findall(r"[A-Za-z]+", self.text) if not _STOP.match(word.lower())}
        return bool(self.name) and len({_stem(word) for word in said} - own) <= NEW_WORDS


def _stem(word: str) -> str:
    return _ENDINGS.sub("", word.lower())


def docstrings_in(path: Path) -> Iterator[Docstring]:
    """Return the docstrings of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            text = ast.get_docstring(node)
            if text:
                yield Docstring(f"{path}:{getattr(node, 'lineno', 1)}", getattr(node, "name", ""), text)


def python_files(paths: Sequence[Path]) -> list[Path]:
    """Return the Python files in folders, and the files named themselves."""
    return sorted(file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path]))


def main() -> int:
    """Print the figures; 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, default=[Path("vibe_jupyter")])
    parser.add_argument("--list", action="store_true", help="the docstrings that open with a clause or repeat a name")
    given = parser.parse_args()
    files = python_files(given.paths)
    found = [one for path in files for one in docstrings_in(path)]
    clauses = [one for one in found if one.is_clause]
    repeated = [one for one in found if one.repeats_name]
    idioms = Counter(match.lower() for one in found for match in _IDIOM.findall(one.text))
    words = sum(len(one.text.split()) for one in found)
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    share, rate = len(clauses) / max(1, len(found)), 1000 * idioms.total() / max(1, words)
    commented = sum(_COMMENT.search(line) is not None for line in lines)
    print(f"docstrings                    {len(found):,} of {words:,} words")
    print(f"opening with a clause         {len(clauses)} ({share:.1%}, at most {CLAUSES_LIMIT:.0%})")
    print(f"idioms per 1,000 words        {rate:.1f} (at most {IDIOMS_LIMIT:g})")
    print(f"adding nothing to a name      {len(repeated)}")
    print(f"lines with a comment          {commented / max(1, len(lines)):.1%}")
    if given.list:
        print(*(f"{one.place}: {one.text.splitlines()[0]}" for one in [*clauses, *repeated]), sep="\n")
    return int(share > CLAUSES_LIMIT or rate > IDIOMS_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
