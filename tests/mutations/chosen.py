"""Mutations that people chose: what stands in the code, what takes its place, and which tests are to notice."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "vibe_jupyter"
LIST = Path(__file__).with_name("chosen.toml")


@dataclass(frozen=True)
class Mutation:
    """One change of one file."""

    file: str
    """Below the package."""
    was: str
    becomes: str
    place: int
    """Characters before `was` in the file."""
    breaks: str
    """The promise, or for a drawn one its operator and place."""
    tests: tuple[tuple[str, ...], ...]
    """Files or folders of tests, in stages: the later ones are run where the earlier ones notice nothing."""
    equivalent: str = ""
    """Why no test can notice it; empty where one can."""

    @property
    def name(self) -> str:
        """The same in each session, as long as the code around it stays."""
        return f"{self.file}: {one_line(self.was)} -> {one_line(self.becomes)}"

    def applied(self, source: str) -> str:
        """The source of the file with the change in it."""
        assert source.startswith(self.was, self.place), self.name
        return source[: self.place] + self.becomes + source[self.place + len(self.was) :]


def one_line(text: str) -> str:
    """A piece of code without line ends."""
    return " ".join(text.split())


def chosen_mutations() -> list[Mutation]:
    """All of the list.

    Raises:
        ValueError: a text does not stand in its file, or stands there more than once.
    """
    return [_chosen_mutation(entry) for entry in tomllib.loads(LIST.read_text(encoding="utf-8"))["mutation"]]


def _chosen_mutation(entry: dict[str, str | list[str]]) -> Mutation:
    file, was = str(entry["file"]), str(entry["was"])
    source = (ROOT / PACKAGE / file).read_text(encoding="utf-8")
    if source.count(was) != 1:
        raise ValueError(f"{was!r} stands {source.count(was)} times in {file}")
    return Mutation(
        file=file,
        was=was,
        becomes=str(entry["becomes"]),
        place=source.index(was),
        breaks=str(entry["breaks"]),
        tests=(tuple(entry["tests"]),),
        equivalent=str(entry.get("equivalent", "")),
    )
