"""What readers meet is plain English, and names only documents that they have."""

import io
import json
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("english")

ROOT = Path(__file__).parents[2]
WRITTEN = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    timeout=20,
    check=True,
).stdout.splitlines()
LEFT_ALONE = (
    "tests/corpora/",  # recorded
    "tests/requirements.toml",  # quotes the requirements
    "scripts/prose.py",  # lists them
    "tests/docs/test_english.py",
)
PRODUCT = (
    "vibe_jupyter/",
    "labextension/src/",
    "labextension/style/",
    "docs/",
    "notebooks/",
    "scripts/",
    "benchmarks/",
)
"""Read by users and contributors, beside the files at the root."""

RETIRED = re.compile(
    r"\b(wish(?:es|ed)?|mend(?:s|ed|ing)?|anew|beforehand|struck out|the person|surroundings|agents? outside"
    r"|tools of your own|(?:is|are) told|wants a value)\b",
    re.IGNORECASE,
)
"""Say prompt or task, fix, again, in advance, redacted, the user (or you), environment, external client, custom tools,
is reported or shown, requires a value."""
UNSHIPPED = re.compile(
    r"security (?:controls? )?[CM]\d|\bseeds? 00\d|\bfound F\d|(?:design|style|house) §"
    r"|\b(?:behaviour|design|english|field|found|house|kernel|model-side|performance|servers|style)"
    r"\.md\b",
)
"""References to plans and notes that no reader of the repository has."""


@cache
def content_of(name: str) -> str:
    """All of a file."""
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def words_of(name: str) -> str:
    """All of its words."""
    return plain(content_of(name))


def texts(name: str) -> Iterator[tuple[int, str]]:
    """The first line and the text of each piece that people read: all of it, or comments and strings of code."""
    content = content_of(name)
    if name.endswith(".ipynb"):
        for number, cell in enumerate(json.loads(content)["cells"], 1):
            yield number, "".join(cell["source"])
    elif name.endswith(".py"):
        yield from python_texts(content)
    else:
        yield 1, content


def python_texts(content: str) -> Iterator[tuple[int, str]]:
    """Comments and strings; those that follow each other are one text."""
    wanted = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    first, pieces = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type in wanted:
            first = first or token.start[0]
            pieces.append(token.string)
        elif token.type != tokenize.NL:
            if pieces:
                yield first, "\n".join(pieces)
            first, pieces = 0, []


def plain(text: str) -> str:
    """The words alone, whatever line ends, quotes and comment signs stand between them."""
    return re.sub(r"(?:\\n|\\\n|[\s#\"*]|//)+", " ", text)


def found(name: str, pattern: re.Pattern[str]) -> list[str]:
    """Where it occurs, with some of the text around it."""
    if name.endswith(".py") and not pattern.search(words_of(name)):
        return []  # nor is it in any piece: code is taken apart slowly
    out: list[str] = []
    for first, text in texts(name):
        words = plain(text)
        out += [f"{name}:{first}: …{words[max(0, m.start() - 40) : m.end() + 40]}…" for m in pattern.finditer(words)]
    return out


def readable(*beginnings: str) -> list[str]:
    suffixes = (".py", ".md", ".ts", ".css", ".ipynb", ".yml", ".toml", "Makefile")
    there = [name for name in WRITTEN if name.endswith(suffixes) and (ROOT / name).is_file()]
    chosen = (name for name in there if "/" not in name or name.startswith(beginnings))
    return [name for name in chosen if not name.startswith(LEFT_ALONE)]


def test_words_that_the_glossary_retired_do_not_come_back() -> None:
    names = readable(*PRODUCT)
    assert len(names) > 200
    assert [hit for name in names for hit in found(name, RETIRED)] == []


def test_no_text_refers_to_a_document_that_does_not_ship() -> None:
    names = readable(*PRODUCT, "tests/")
    assert [hit for name in names for hit in found(name, UNSHIPPED)] == []


def test_every_page_of_the_documentation_that_code_names_is_there() -> None:
    code = readable("vibe_jupyter/", "labextension/src/", "scripts/", "benchmarks/")
    pages = {page for name in code for page in re.findall(r"\bdocs/[\w/-]+\.md\b", (ROOT / name).read_text("utf-8"))}
    assert len(pages) > 5
    assert [page for page in sorted(pages) if not (ROOT / page).is_file()] == []


@pytest.mark.parametrize(
    ("code", "hits"),
    [
        ('print("Say what you wish")', 1),
        ("# what the\n# person sees", 1),
        ('raise ConfigError("Ask the " "person.")', 1),
        ('def f():\n    """What the model\n    is told."""', 1),
        ("wish = mend(surroundings)", 0),
    ],
)
def test_a_retired_word_is_seen_in_texts_and_not_in_code(code: str, hits: int) -> None:
    assert sum(len(RETIRED.findall(plain(text))) for _, text in python_texts(code)) == hits
