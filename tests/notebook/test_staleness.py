"""Which cells still show what the cells above them give: told by their code, and judged by running them."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.kernel.matrix import ROOT, other_python
from tests.notebook.notebook_runs import RECORDED, LiveNotebook, recorded_notebook
from tests.notebook.planted_state import ALL, FRAME, PLANTED, Deed
from tests.patience import patient
from vibe_jupyter.notebook.cell_names import cell_names
from vibe_jupyter.notebook.name_steps import Act
from vibe_jupyter.notebook.replay import Execution, Replay
from vibe_jupyter.notebook.staleness import cell_standings, dependents
from vibe_jupyter.protocol import Cell


@dataclass
class Score:
    found: int = 0
    wrong: int = 0
    missed: int = 0
    unknown: int = 0
    cells: int = 0

    @property
    def recall(self) -> float:
        return self.found / (self.found + self.missed)

    @property
    def precision(self) -> float:
        return self.found / (self.found + self.wrong)


def notebook_after(sources: list[str], *deeds: Deed) -> LiveNotebook:
    notebook = LiveNotebook(sources)
    for deed in deeds:
        notebook.do(deed)
    return notebook


def all_notebooks() -> Iterator[LiveNotebook]:
    for sources, deeds in PLANTED.values():
        yield notebook_after(sources, *deeds)
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            yield recorded_notebook(line)


def states(notebook: LiveNotebook, *, looked: bool = True) -> list[str]:
    found = notebook.standings(looked=looked)
    return [found[cell.id].state for cell in notebook.cells]


@pytest.fixture(scope="module")
def scores() -> dict[bool, Score]:
    """By whether the variables were looked at while the cells ran, or IPython's history is all there is."""
    scores = {True: Score(), False: Score()}
    notebooks = list(all_notebooks())
    assert len(notebooks) == 60
    for notebook in notebooks:
        told = {looked: notebook.standings(looked=looked) for looked in scores}
        truth = notebook.truly_stale()
        for looked, standings in told.items():
            stale = {cell for cell, status in standings.items() if status.state == "stale"}
            score = scores[looked]
            score.found += len(stale & truth)
            score.wrong += len(stale - truth)
            score.missed += len(truth - stale)
            score.unknown += sum(status.state == "unknown" for status in standings.values())
            score.cells += len(standings)
    return scores


@pytest.mark.requirement("notebook.stale_cells.list")
@pytest.mark.matrix
def test_stale_cells_are_found_in_60_notebooks_with_hidden_state(scores: dict[bool, Score]) -> None:
    score = scores[True]

    assert score.found >= 60
    assert score.recall >= 0.95
    assert score.precision >= 0.95
    assert score.unknown <= 0.1 * score.cells


@pytest.mark.matrix
def test_the_history_alone_finds_them_nearly_as_well(scores: dict[bool, Score]) -> None:
    score = scores[False]

    assert score.recall >= 0.95
    assert score.precision >= 0.9
    assert score.unknown <= 0.1 * score.cells


@pytest.mark.requirement("notebook.stale_cells.list")
def test_it_says_which_name_a_cell_waits_for_and_who_changed_it() -> None:
    sources = ["limit = 10", "kept = [n for n in range(20) if n < limit]", "print(len(kept))", "print('done')"]
    notebook = notebook_after(sources, ALL, ("edit", 0, "limit = 5"), ("run", 0))

    found = [notebook.standings(looked=True)[cell.id] for cell in notebook.cells]

    assert [status.state for status in found] == ["fresh", "stale", "stale", "fresh"]
    assert found[1].why == "limit changed by #1 [5]"
    assert found[1].waits == (("limit", "cell-0"),)
    assert found[2].why == "kept waits for #2"


def test_a_deleted_cell_whose_name_lives_is_said() -> None:
    notebook = notebook_after(["a = 1", "b = a + 1", "print(b)"], ALL, ("delete", 1))

    why = notebook.standings(looked=True)["cell-2"].why

    assert why == "b from [2], which is in no cell any more"


def test_a_cell_that_read_what_its_own_older_source_left_is_told_so() -> None:
    notebook = notebook_after(["n = 1", "n = n + 1"], ALL, ("edit", 1, "n = n + 2"), ("run", 1))

    status = notebook.standings(looked=True)["cell-1"]

    assert (status.state, status.why) == ("stale", "n as it left it itself when it ran before")


def test_a_notebook_run_from_top_to_bottom_is_fresh() -> None:
    sources = [FRAME, "df.head()", "df['c'] = df.a * 2", "df = df.dropna()", "print(df.c.sum())", "df.head()"]

    assert states(notebook_after(sources, ALL)) == ["fresh"] * 6
    assert states(notebook_after(sources, ALL, ALL)) == ["fresh"] * 6


def test_a_comment_makes_no_cell_edited() -> None:
    notebook = notebook_after(["a = 1", "print(a)"], ALL, ("edit", 0, "# one\na  =  1"))

    assert states(notebook) == ["fresh", "fresh"]


def test_an_edited_cell_and_what_depends_on_it_are_told_apart() -> None:
    notebook = notebook_after(["a = 1", "b = a", "c = b", "d = 1"], ALL, ("edit", 0, "a = 2"))

    assert states(notebook) == ["edited", "stale", "stale", "fresh"]


def test_a_failed_cell_and_one_that_never_ran_are_told() -> None:
    notebook = notebook_after(["a = 1", "1 / 0", "b = 2"], ("run", 0, 1))

    assert states(notebook) == ["fresh", "failed", "never"]


def test_a_change_that_no_code_shows_is_seen_by_how_the_variable_looks() -> None:
    sources = ["data = [3, 1, 2]\ntools = {'sort': list.sort}", "print(data)", "tools['sort'](data)", "print(data)"]
    again = ("run", 2), ("edit", 0, "data = [9, 8]\ntools = {'sort': list.sort}"), ("run", 0), ("run", 3), ("run", 2)

    notebook = notebook_after(sources, ALL, *again)

    assert states(notebook)[3] == "stale"
    assert notebook.standings(looked=True)["cell-3"].why == "data changed by #3 [8]"


def test_what_a_tracer_saw_a_cell_read_counts_as_read() -> None:
    use = "print(TOOLS['scale'](10))"
    cells = [
        Cell(id="rate", number=1, kind="code", source="k = 3", execution_count=3),
        Cell(id="use", number=2, kind="code", source=use, execution_count=2),
    ]

    def standing_of_use(traced: frozenset[str]) -> tuple[str, str]:
        runs = [Execution("k = 2", 1, "rate"), Execution(use, 2, "use", traced=traced), Execution("k = 3", 3, "rate")]
        return cell_standings(cells, Replay(runs))["use"][:2]

    assert standing_of_use(frozenset()) == ("fresh", "")
    assert standing_of_use(frozenset({"k"})) == ("stale", "k changed by #1 [3]")


UNKNOWN = "unknown"


@pytest.mark.parametrize(
    ("counts", "states"),
    [
        ((1, 2, 3), ("fresh", "fresh", "fresh")),
        ((2, 2, 3), (UNKNOWN, UNKNOWN, "stale")),
        ((1, 2, 2), ("fresh", UNKNOWN, UNKNOWN)),
        ((3, 3, 3), (UNKNOWN, UNKNOWN, UNKNOWN)),
        ((1, 2, 4), ("fresh", "fresh", UNKNOWN)),
        ((None, None, 3), ("never", "never", "stale")),
    ],
)
def test_a_number_that_several_cells_carry_says_of_none_that_it_ran(
    counts: tuple[int | None, ...], states: tuple[str, ...]
) -> None:
    sources = ("x = 1", "x = 2", "y = x")
    runs = [Execution(source, number, None) for number, source in enumerate(sources, 1)]
    cells = [
        Cell(id=f"c{place}", number=place, kind="code", source=source, execution_count=count)
        for place, (source, count) in enumerate(zip(sources, counts, strict=True), 1)
    ]
    assert tuple(one.state for one in cell_standings(cells, Replay(runs)).values()) == states
    known = [one._replace(cell="c2") if one.number == 2 else one for one in runs]
    assert cell_standings(cells, Replay(known))["c2"].state == "fresh"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("%run other.py", "what the magic %run does with names is not known"),
        ("%%R\nx <- 1", "what the cell magic %%R does with names is not known"),
        ("exec(open('more.py').read())", "it runs code by exec()"),
        ("globals()[name] = 1", "it binds names by globals()"),
        ("let x = 1", "it is no Python that can be parsed"),
    ],
)
def test_code_that_nobody_can_read_names_from_is_unknown_and_says_why(source: str, why: str) -> None:
    assert cell_names(source).unknown == why


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("df.drop(columns='a', inplace=True)", {"df"}),
        ("df.loc[0, 'a'] = 1", {"df"}),
        ("model.layers[0].weight = 1", {"model"}),
        ("items.append(1)", {"items"}),
        ("new = series.add(1)", set()),
        ("np.multiply(a, b, out=c)", {"c"}),
        ("rng.shuffle(cards)", {"cards"}),
        ("first = next(rows)", {"rows"}),
        ("del table['a']", {"table"}),
        ("model.fit(x, y)", {"model"}),
        ("for row in rows:\n    row['a'] = 1", {"row"}),
        ("%time items.sort()", {"items"}),
        ("async with lock:\n    seen.append(1)", {"seen"}),
    ],
)
def test_changes_in_place_are_read_from_the_code(source: str, changed: set[str]) -> None:
    assert {step.name for step in cell_names(source).steps if step.act is Act.CHANGE} == changed


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ("[n * k for n in numbers if n > least]", {"numbers", "k", "least"}),
        ("class A:\n    size = base\n    width = size", {"base"}),
        ("f = lambda x, y=top: x + y", {"top"}),
        ("f = lambda x: x * rate", {"rate"}),
        ("!ls {folder} $name", {"folder", "name", "str"}),
        ("%%timeit -n 3\nwork(data)", {"work", "data"}),
        ("x = 1\nprint(x)", {"x", "print"}),
        ("%matplotlib inline\nplt.show()", {"plt", "str"}),
        ("match shape:\n    case {'w': w}:\n        print(w)", {"shape", "w", "print"}),
        ("await fetch(address)", {"fetch", "address"}),
        ("%%time total = sum(values)", {"sum", "values"}),
    ],
)
def test_what_code_reads_is_read_from_its_scopes(source: str, reads: set[str]) -> None:
    assert {step.name for step in cell_names(source).steps if step.act is Act.READ} == reads


@pytest.mark.matrix
def test_a_type_alias_of_newer_pythons_is_bound_by_its_cell() -> None:
    newer = other_python("3.12")
    if newer is None:
        pytest.skip("Python 3.12 is not installed here")
    code = """
from vibe_jupyter.notebook.cell_names import cell_names
print(*[(step.act.name, step.name) for step in cell_names("type Row[T] = dict[str, T | Later]").steps])
"""
    run = [newer.python, "-c", code]
    assert subprocess.check_output(run, cwd=ROOT, text=True, timeout=patient(60)) == "('BIND', 'Row')\n"


@pytest.mark.parametrize(
    ("source", "depends"),
    [
        ("if wide:\n    limit = 2\nprint(limit)", True),
        ("limit = 1\nif wide:\n    limit = 2\nprint(limit)", False),
        ("if wide:\n    limit = 2\nelse:\n    limit = 1\nprint(limit)", False),
    ],
)
def test_a_name_that_one_branch_alone_binds_may_be_that_of_a_cell_above(source: str, depends: bool) -> None:
    above = Cell(id="above", number=1, kind="code", source="limit = 10")
    below = Cell(id="below", number=2, kind="code", source=source)

    assert dependents([above, below], ["above"]) == (["below"] if depends else [])


def test_cells_that_depend_on_a_change_end_where_the_name_is_bound_anew() -> None:
    sources = ("base = 1", "double = 2 * base", "base = 5", "print(base)", "double += base", "print(double)")
    cells = [Cell(id=f"c{at}", number=at, kind="code", source=source) for at, source in enumerate(sources)]

    assert dependents(cells, ["c0"]) == ["c1", "c4", "c5"]
    assert dependents(cells, ["c2"]) == ["c3", "c4", "c5"]
