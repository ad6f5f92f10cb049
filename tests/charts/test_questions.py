"""Twelve questions of each of forty charts, answered from its text alone by a reader that knows no chart."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.charts.recipes import LIBRARIES, RECIPES, Recipe
from vibe_jupyter.charts import CHART_LIMIT
from vibe_jupyter.variables.describe import describe_value

NUMBER = r"-?\d[\d.]*(?:e[+-]?\d+)?"


def read(text: str) -> dict[str, Any]:
    """What a reader takes from the text."""
    found = re.match(r'(?P<library>\w+)(?: "(?P<title>[^"]*)")? (?P<kind>[^;"]+)(?: "(?P<over>[^"]*)")?; ', text)
    assert found is not None, text
    answers: dict[str, Any] = {
        "library": found["library"],
        "title": found["title"] or found["over"],
        "kind": found["kind"],
    }
    for name in "xy":
        axis = re.search(rf'; {name} "([^"]*)" ([^;]*)', text)
        assert axis is not None, text
        answers[f"{name} label"] = axis[1]
        ends = axis[2].split(" … ") if " … " in axis[2] and "categories" not in axis[2] else [axis[2], axis[2]]
        answers[f"{name} from"], answers[f"{name} to"] = ends
    answers["points"] = re.search(r"n=(\d+)", text)[1]  # type: ignore[index]
    many = re.search(r"(\d+) series, n=\d+: (.*)", text)
    answers["series"] = [re.split(r" n=| \(|, ", one)[0] for one in many[2].split("; ")] if many else []
    ends = re.findall(rf"max ({NUMBER}) at ([^,;]+)", text)
    answers["greatest at"] = max(ends, key=lambda end: float(end[0]))[1] if ends else None
    return answers


def questions(recipe: Recipe, library: str) -> Mapping[str, Any]:
    """Each question with its answer."""
    points = [point for series in recipe.series.values() for point in series]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    words = isinstance(xs[0], str) and not xs[0][0].isdigit()
    listed = list(dict.fromkeys(xs))
    shown = ", ".join(listed[:4]) + (f", … ({len(listed)} categories)" if len(listed) > 4 else "") if words else None
    return {
        "library": library,
        "kind": recipe.kind,
        "title": recipe.title,
        "x label": recipe.x,
        "y label": recipe.y,
        "x from": shown or min(xs),
        "x to": shown or max(xs),
        "y from": min(ys),
        "y to": max(ys),
        "points": len(points),
        "series": list(recipe.series) if len(recipe.series) > 1 else [],
        "greatest at": max(points, key=lambda point: point[1])[0],
    }


def is_same(said: Any, known: Any) -> bool:
    """Numbers to a hundredth, words as they are."""
    if isinstance(known, int | float):
        return abs(float(said) - known) <= 0.01 * max(1e-9, abs(known))
    return said == known


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", RECIPES)
def test_the_text_of_a_chart_answers_twelve_questions(name: str, library: str) -> None:
    recipe = RECIPES[name]
    text = describe_value(LIBRARIES[library](recipe)).body

    asked = questions(recipe, library)
    said = read(text)

    assert len(asked) == 12
    assert len(text) <= CHART_LIMIT
    assert {
        question: said[question] for question, answer in asked.items() if not is_same(said[question], answer)
    } == {}, text
