"""Attacks: attempts to get past a protection, each with one verdict.

An attack is a test marked `@pytest.mark.attack(family)`; it fails if the attempt got through. Each parameter set is one
attempt; a test that makes several reports them through the fixture `attempts`. `make attacks` runs them all and prints
verdicts by family. `make test` runs a hundredth of each test's parameter sets and at least one, or all of them if the
marker says `always=True`.
"""

import tomllib
from pathlib import Path
from typing import Final

SAMPLE: Final = 100  # `make test` runs one parameter set in this many
LEAST: Final = 450  # attempts of a whole run

FAMILIES: Final[dict[str, str]] = {
    family["name"]: family["tried"]
    for family in tomllib.loads(Path(__file__).with_name("families.toml").read_text(encoding="utf-8"))["family"]
}
