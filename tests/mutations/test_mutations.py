"""The chosen mutations keep up with the code, and a seed draws the same ones each time."""

import pytest

from tests.mutations.chosen import PACKAGE, ROOT, Mutation, chosen_mutations
from tests.mutations.drawn import COUNT, drawn_mutations, parsed

COVERED = ("permissions", "agent", "kernel", "notebook", "mcp")
LEAST = 100


@pytest.fixture(scope="module")
def chosen() -> list[Mutation]:
    return chosen_mutations()


def test_each_text_that_is_to_be_changed_stands_once_in_its_file_and_the_change_is_python(
    chosen: list[Mutation],
) -> None:
    assert len(chosen) >= LEAST
    for mutation in chosen:
        source = (ROOT / PACKAGE / mutation.file).read_text(encoding="utf-8")
        assert mutation.was.split() != mutation.becomes.split(), mutation.name
        # Not `ast.parse`: see `parsed`.
        compile(mutation.applied(source), mutation.file, "exec")


def test_every_module_that_decides_or_acts_has_a_mutation(chosen: list[Mutation]) -> None:
    with_code = {
        path.relative_to(ROOT / PACKAGE).as_posix()
        for folder in COVERED
        for path in (ROOT / PACKAGE / folder).rglob("*.py")
        if len(parsed(path.read_text(encoding="utf-8")).body) > 1
    }
    assert with_code - {mutation.file for mutation in chosen} == set()


def test_the_tests_that_are_to_notice_a_mutation_are_there(chosen: list[Mutation]) -> None:
    named = {name for mutation in chosen for stage in mutation.tests for name in stage}
    for name in sorted(named):
        path, _, test = name.partition("::")
        assert (ROOT / path).exists(), name
        assert not test or f"def {test.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8"), name


@pytest.mark.matrix
def test_a_seed_draws_the_same_changes_again_and_another_seed_draws_others() -> None:
    drawn = drawn_mutations()
    assert len(drawn) == COUNT
    assert [one.name for one in drawn_mutations()] == [one.name for one in drawn]
    assert {one.name for one in drawn_mutations(seed=1)} != {one.name for one in drawn}
    for mutation in drawn:
        source = (ROOT / PACKAGE / mutation.file).read_text(encoding="utf-8")
        assert mutation.was.split() != mutation.becomes.split(), mutation.name
        # Not `ast.parse`: see `parsed`.
        compile(mutation.applied(source), mutation.file, "exec")
