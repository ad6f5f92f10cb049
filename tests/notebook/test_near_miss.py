"""Of several places that look like a text that a cell does not hold, the one that looks most like it is shown."""

import pytest

from vibe_jupyter.notebook.near_miss import near_miss

GAP = [f"filler_{number} = {number}" for number in range(30)]


@pytest.mark.parametrize(
    ("wanted", "places", "nearest"),
    [
        (
            "total = 0\nfor row in rows:\n    total += row",
            ["total = 0\nwhile rows:\n    pass", "total = 0\nfor row in rows:\n    total -= row", "total = 0"],
            1,
        ),
        ("total = 0\nprint(total)", ["total = 0\nshow(total)", "total = 0\ndisplay(total)"], 0),
        ("price = base * 1.25", ["prize = bass * 1.5", "price = base * 1.35", "prize = base * 1.35"], 1),
        ("a = 1\nprice = base * 1.25", ["b = 1", "price = base * 1.35", "a ="], 1),
    ],
)
def test_the_place_that_is_most_alike_is_shown(wanted: str, places: list[str], nearest: int) -> None:
    lines: list[str] = []
    begins: list[int] = []
    for place in places:
        lines += GAP
        begins.append(len(lines) + 1)
        lines += place.split("\n")
    said = near_miss(wanted, "\n".join([*lines, *GAP]))
    first, last = (int(number) for number in said.partition("lines ")[2].partition(" are")[0].split("-"))
    assert [first <= begin <= last for begin in begins] == [at == nearest for at in range(len(places))], said
