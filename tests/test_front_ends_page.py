"""docs/front-ends.md says only what a test shows."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "front-ends.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(test_\w+)`", PAGE)


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.split("## Not tried")[0].splitlines() if line.startswith("| ")]
    facts = [row for row in rows if not row.endswith("shown by |")]
    assert len(facts) == len(NAMED) > 20


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_the_page_names_is_there(file: str, name: str) -> None:
    assert re.search(rf"^(?:async )?def {name}\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE)
