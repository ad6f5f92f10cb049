"""Of each call that a model gets wrong, the answer says enough to make the next call, which succeeds."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.chair.bad_calls import BAD_CALLS
from tests.chair.mending import MendingDesk, Outcome

pytestmark = [pytest.mark.matrix, pytest.mark.xdist_group("chair")]

REFUSED = 85
"""Calls of the table, at least, that are not understood at once."""
BY_A_LOOK = {("stale text", "write_file")}
"""Kinds and tools of calls that are mended after one look that the answer asks for."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Outcome]]:
    """All calls, played once."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VIBE_HOME", str(home))
        with MendingDesk(tmp_path_factory.mktemp("work"), home) as desk:
            yield [desk.play(case) for case in BAD_CALLS]


def test_whoever_reads_only_schemas_and_errors_makes_the_next_call_and_it_succeeds(outcomes: list[Outcome]) -> None:
    print(*_table(outcomes), sep="\n")
    assert [one.story() for one in outcomes if not one.is_mended] == []
    late = {(one.case.kind, one.case.name) for one in outcomes if not one.at_once}
    assert late <= BY_A_LOOK
    assert sum(one.was_refused for one in outcomes) >= REFUSED


def test_every_tool_that_is_offered_is_called_wrongly(outcomes: list[Outcome]) -> None:
    assert {one.tool for one in outcomes if one.was_refused} >= outcomes[0].offered


def _table(outcomes: list[Outcome]) -> Iterator[str]:
    kinds = Counter(one.case.kind for one in outcomes)
    yield f"{'kind':<22}calls refused mended at the next call"
    for kind, count in kinds.items():
        some = [one for one in outcomes if one.case.kind == kind]
        refused, mended = sum(one.was_refused for one in some), sum(one.is_mended for one in some)
        yield f"{kind:<22}{count:5} {refused:7} {mended:6} {sum(one.at_once for one in some):16}"
