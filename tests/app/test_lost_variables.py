"""Which cells are named to run again where a conversation goes on and its variables are gone."""

from collections.abc import Mapping

import pytest

from vibe_jupyter.app.lost_variables import Move, loss_text, lost_variables
from vibe_jupyter.protocol import Cell, TextPart, UserMessage


def said(lost: str, *sources: str, present: Mapping[str, object] | None = None) -> str:
    """The cells that the sentence names; each has the number of its place, and Markdown begins with a hash."""
    cells = [
        Cell(id=f"c{n}", number=n, kind="markdown" if source.startswith("#") else "code", source=source,
             execution_count=None if source.startswith("#") else n)
        for n, source in enumerate(sources, 1)
    ]  # fmt: skip
    text = loss_text(lost.split(), cells, present or {}, Move("restart", ""))
    return text.partition(" Run ")[2].removesuffix("?")


@pytest.mark.parametrize(
    ("lost", "sources", "run"),
    [
        ("x", ["x = 1"], "cell [1]"),
        ("x", ["y = 1"], ""),
        ("x", ["x = 1", "x = 2", "x = 3"], "cell [3]"),
        ("y", ["x = 1", "x = 2", "y = x", "x = 3"], "cells [2]-[3]"),
        ("x y", ["x = 1", "# Text", "z = 2", "y = x"], "cells [1] and [4]"),
        ("y", ["x = 1", "# Text", "y = x"], "cells [1]-[3]"),
        ("c", ["a = 1", "other = 0", "b = a", "unused = b", "c = b"], "cells [1], [3] and [5]"),
        ("df", ["df = load()", "df = df.dropna()", "df['a'] = 1", "df.head()"], "cells [1]-[3]"),
        ("n", ["n = 1", "n = 10", "n += 1", "m = n"], "cells [2]-[3]"),
        ("x", ["x = []", "x.append(1)", "y = 0", "x.append(2)"], "cells [1]-[2] and [4]"),
        ("x", ["x = 1", "if a:\n    x = 2"], "cells [1]-[2]"),
        ("y", ["def f():\n    return rate", "rate = 1", "rate = 2", "y = f()"], "cells [1] and [3]-[4]"),
        ("a", ["a = b", "b = a", "a = b"], "cells [1]-[3]"),
        ("y", ["y = x", "z = 0", "x = 1"], "cells [1] and [3]"),
    ],
)
def test_the_cells_to_run_are_those_that_make_what_is_gone_as_it_was_last(
    lost: str, sources: list[str], run: str
) -> None:
    assert said(lost, *sources) == run


def test_what_is_there_needs_no_cell() -> None:
    sources = ["x = 1", "y = x", "z = y + x"]
    assert said("z", *sources) == "cells [1]-[3]"
    assert said("z", *sources, present={"y": 1}) == "cells [1] and [3]"
    assert said("z", *sources, present={"y": 1, "x": 1}) == "cell [3]"


def test_of_many_lost_variables_the_one_that_the_conversation_speaks_of_most_is_named_first() -> None:
    texts = ["Fit rates to sales, and sales to shops.", "sales, rates and sales_2"]
    history = [UserMessage(parts=(TextPart(text=text),)) for text in texts]
    known = ["shops", "idle", "rates", "sales", "here", "other"]
    lost = lost_variables(known, {"here": 1}, history)
    assert lost == ["sales", "rates", "shops", "idle", "other"]
    assert lost_variables(known, {"here": 1}, []) == ["shops", "idle", "rates", "sales", "other"]
    assert loss_text(lost, [], {}, Move("none", "")) == "`sales` and 4 more are gone."
    assert loss_text(lost[:3], [], {}, Move("none", "")) == "`sales`, `rates`, `shops` are gone."
