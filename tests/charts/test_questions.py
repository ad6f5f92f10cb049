"""Twelve questions of each chart, answered from its text alone by a reader that knows no chart."""

from collections.abc import Iterator

import pytest

from tests.charts import kinds, recipes
from tests.charts.kinds import Drawn
from tests.charts.questions import LEAST_QUESTIONS, of_points, wrong_answers
from vibe_jupyter.charts import CHART_LIMIT
from vibe_jupyter.variables.describe import describe_value

pytestmark = pytest.mark.xdist_group("libraries")
CHARTS, AFTER_GALLERIES = 80, 40


def drawn_by(library: str) -> Iterator[Drawn]:
    if draw := recipes.LIBRARIES.get(library):
        for name, recipe in recipes.RECIPES.items():
            asked = of_points(recipe.kind, recipe.title, (recipe.x, recipe.y), recipe.series)
            yield Drawn(name, recipe.after.get(library, ""), draw(recipe), {**asked, "library": library})
    yield from kinds.LIBRARIES[library]()


@pytest.mark.filterwarnings("ignore:vert. bool was deprecated")  # in seaborn 0.13, by matplotlib 3.11
def test_each_of_eighty_charts_has_a_text_that_answers_twelve_questions() -> None:
    wrong: dict[str, object] = {}
    examples: list[str] = []
    for library in kinds.LIBRARIES:
        for drawn in drawn_by(library):
            text = describe_value(drawn.chart).body
            examples.append(drawn.after)
            if missed := wrong_answers(text, drawn.asked):
                wrong[f"{library} {drawn.name}: {text}"] = missed

            assert len(drawn.asked) >= LEAST_QUESTIONS, drawn.name
            assert len(text) <= CHART_LIMIT, drawn.name

    assert wrong == {}
    assert len(examples) >= CHARTS
    assert len(list(filter(None, examples))) >= AFTER_GALLERIES
