"""What a search pattern cannot find, held against grep itself."""

import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vibe_jupyter.policy.shell.runs import cannot_match, mandatory_runs

ATOMS = (
    *("a", "b", "c", "ab", "abc", "cab", "A", "B", ".", "^", "$", "*", "?", "+", "{", "}", "|", "(", ")", "[", "]"),
    *(
        "[ab]",
        "[^a]",
        "[]a]",
        "[[:alpha:]]",
        "\\|",
        "\\?",
        "\\+",
        "\\{",
        "\\(",
        "\\)",
        "\\.",
        "\\w",
        "\\b",
        "\\<",
        "\\n",
        "\n",
    ),
    *(
        "é",
        "\u212a",
        "\u017f",
        "k",
        "s",
        "sk",
        "kab",
        "-",
        "1",
        "\\\\",
        "\\*",
        "\\[",
        "\\a",
        "{2}",
        "{0}",
        "a*",
        "b?",
        "c{0,1}",
    ),
)
OPTIONS = ("", "-i", "-w", "-x")


@pytest.mark.parametrize(
    ("pattern", "extended", "runs"),
    [
        ("def main", False, [["def main"]]),
        ("^import os$", False, [["", "import os", ""]]),
        ("TODO\\|FIXME", False, [["TODO"], ["FIXME"]]),
        ("TODO|FIXME", False, [["TODO|FIXME"]]),
        ("TODO|FIXME", True, [["TODO"], ["FIXME"]]),
        ("abcd*e", False, [["abc", "e"]]),
        ("abcd?e", True, [["abc", "e"]]),
        ("abcd\\?e", False, [["abc", "e"]]),
        ("a[xyz]b\\w\\.c", False, [["a", "b", ".c"]]),
        ("a\\(b\\)", False, None),
        ("(a|b)c", True, None),
        ("a{2}", True, None),
        ("[[:alpha:]]a", False, None),
    ],
)
def test_a_pattern_is_taken_apart(pattern: str, extended: bool, runs: list[list[str]] | None) -> None:
    assert mandatory_runs(pattern, fixed=False, extended=extended) == runs


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False))
def test_where_it_says_nothing_can_be_found_grep_finds_nothing(tmp_path: Path, chance: random.Random) -> None:
    pattern = "".join(chance.choice(ATOMS) for _ in range(chance.randrange(1, 9)))
    text = "".join(chance.choice("aabbccABCkKsS-1.|é\u212a\n") for _ in range(chance.randrange(1, 40)))
    kind, option = chance.choice("EFG"), chance.choice(OPTIONS)
    alternatives = mandatory_runs(pattern, fixed=kind == "F", extended=kind == "E")
    if alternatives is None or not cannot_match(alternatives, text.lower().encode()):
        return
    (tmp_path / "secret").write_text(text, encoding="utf-8")
    words = ["grep", f"-{kind}", *option.split(), "-e", pattern, "secret"]
    found = subprocess.run(
        words,
        cwd=tmp_path,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        capture_output=True,
        timeout=20,
    )
    assert found.stdout == b"", (pattern, text)
