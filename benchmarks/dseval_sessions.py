"""Problem sets of DSEval (github.com/MetaCopilot/dseval) as sessions: one call of `run_code` for each reference answer.

A set is a file of blocks: the first ones are what the user has, each further one is a question and the code that
answers it. The data lie in a folder beside it. Nothing of DSEval is part of this repository.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.notebook.cell_names import cell_names, read_names
from vibe_jupyter.notebook.name_steps import Act

KINDS: Final = ("exercise", "kaggle")
"""Folders of sets with more than one question."""
_BETWEEN: Final = "# %%\n"
_ASKED: Final = re.compile(r'r?"""(?P<about>[\s\S]+?)"""\n(?P<code>[\s\S]+)')
_TO_KEEP: Final = "namespace_check:"
"""What a question says of whose answer DSEval compares the variables."""
_DATA: Final = re.compile(r"[\"']inputs/([^\"']+)[\"']")
_NETWORK: Final = re.compile(r"[\"']https?://|\bpandas_datareader\b")
_BINDS: Final = (Act.BIND, Act.ALIAS, Act.SURE, Act.CHANGE)


class Step(NamedTuple):
    """One question's answer, as the agent's call."""

    code: str
    """With the lines of earlier looks that it needs: what those bound is gone."""
    keep: bool
    """Whether the task is to have variables afterwards."""


class ProblemSet(NamedTuple):
    """One file."""

    name: str
    given: str
    """Code that the user ran first."""
    steps: Sequence[Step]
    data: Path
    """The folder that the code calls ``inputs``."""


def problem_sets(folder: Path) -> Iterator[ProblemSet | str]:
    """All of a checkout; of those that cannot be replayed, why.

    Args:
        folder: of the checkout.

    Raises:
        FileNotFoundError: it holds none.
    """
    files = [file for kind in KINDS for file in sorted((folder / "benchmarks" / kind).glob("[!_]*.py"))]
    if not files:
        raise FileNotFoundError(f"no problem sets in {folder / 'benchmarks'}; give the folder of a DSEval checkout")
    for file in files:
        text, inputs = file.read_text(encoding="utf-8"), file.parent / "_inputs"
        data = inputs / file.stem if (inputs / file.stem).is_dir() else inputs
        blocks = [block.strip() for block in text.split(_BETWEEN)[1:] if block.strip()]
        code = [_ASKED.fullmatch(block) for block in blocks]
        if _NETWORK.search("\n".join(one["code"] if one else block for one, block in zip(code, blocks, strict=True))):
            yield f"{file.stem}: it uses the network"
        elif missing := [name for name in _DATA.findall(text) if not (data / name).is_file()]:
            yield f"{file.stem}: {missing[0]} is missing"
        else:
            yield _problem_set(file.stem, blocks, data)


def _problem_set(name: str, blocks: Sequence[str], data: Path) -> ProblemSet:
    asked = [found for block in blocks if (found := _ASKED.fullmatch(block))]
    given = "\n".join(block for block in blocks if not _ASKED.fullmatch(block))
    answers, steps, looks = [found["code"].strip() for found in asked], list[Step](), list[str]()
    there = _bound(given)
    """Names that are in the kernel."""
    for place, (found, code) in enumerate(zip(asked, answers, strict=True)):
        needed = {name for later in answers[place + 1 :] for name in read_names(later)}
        keep = _TO_KEEP in found["about"] or bool(_bound(code) & there & needed)
        steps.append(Step("\n".join([*_carried(code, looks, there), code]), keep))
        if keep:
            there |= _bound(steps[-1].code)
        else:
            looks.append(code)
    return ProblemSet(name, given, steps, data)


def _carried(code: str, looks: Sequence[str], there: set[str]) -> list[str]:
    """Those of the looks that bind what this code reads, or what these read, in their order."""
    needed, taken = set(read_names(code)) - there, list[str]()
    for look in reversed(looks):
        if _bound(look) & needed:
            taken.insert(0, look)
            needed |= set(read_names(look)) - there
    return taken


def _bound(code: str) -> set[str]:
    return {step.name for step in cell_names(code).steps if step.act in _BINDS}
