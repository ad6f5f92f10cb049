"""Hashes of whole values: equal for equal content whichever objects hold it, different for anything else."""

import collections
import datetime
import functools
import io
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pandas as pd
import pytest

from vibe_jupyter.variables.content_hash import ContentHash, ContentHasher, same_content

pytestmark = pytest.mark.requirement("ui.approval.equal-values")
AMPLE: Final = 60.0
"""Seconds of CPU."""
CSV: Final = "a,b,c,d\n" + "\n".join(f"{n},x{n % 7},{n / 3},2020-01-01" for n in range(180))


def with_columns(**columns: Callable[[Any], Any]) -> Any:
    return frame().assign(**columns)


def with_source(table: Any) -> Any:
    table.attrs["source"] = "x"
    return table


def read_only(values: Any) -> Any:
    values.setflags(write=False)
    return values


class Thing:
    def __init__(self, *parts: object) -> None:
        self.size, self.parts = 1, [*parts]


def frame() -> Any:
    read: Any = pd.read_csv(io.StringIO(CSV), parse_dates=["d"])
    optional = pd.array([1, None] * 90, dtype="Int64")
    return read.assign(e=read.b.astype("category"), f=optional, g=[[n] for n in range(180)])


def doubler(factor: int) -> Callable[[int], int]:
    def double(value: int, more: int = 2) -> int:
        return factor * value * more

    return double


def loop() -> list[object]:
    held: list[object] = [1]
    held.append(held)
    return held


MADE_AGAIN: Final[dict[str, Callable[[], Any]]] = {
    "frame": frame,
    "column": lambda: frame().b,
    "two index levels": lambda: frame().set_index(["a", "b"]),
    "means": lambda: frame().groupby("b").c.mean(),
    "dates": lambda: pd.date_range("2020", periods=3, tz="Europe/Paris"),
    "array": lambda: np.arange(6.0).reshape(2, 3)[:, ::2],
    "no rows": lambda: np.zeros((0, 3)),
    "objects": lambda: np.array(["a", None, 1.5], dtype=object),
    "scalar": lambda: np.float64(0.5),
    "list": lambda: [1, 2.0, float("nan"), "é\ud800", b"x", None],
    "dict": lambda: {"path": "".join(["data", ".csv"]), "parts": [1, {2}]},
    "sets": lambda: (frozenset({(1, "a")}), {"x", 1}),
    "containers": lambda: [collections.Counter("aab"), collections.deque([1], 3), collections.defaultdict(list)],
    "times": lambda: [datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), pd.Timestamp("2020", tz="Europe/Paris")],
    "function": lambda: doubler(3),
    "partial": lambda: functools.partial(doubler(3), more=5),
    "pattern": lambda: re.compile("a" * 300, re.IGNORECASE),
    "object": lambda: Thing(1, "x"),
    "itself": loop,
}
NEARLY: Final[dict[str, tuple[Any, Any]]] = {
    "one value": (frame(), with_columns(c=lambda f: f.c.where(f.a != 3, f.c + 1e-12))),
    "one text": (frame(), with_columns(b=lambda f: f.b.where(f.a != 3, "z"))),
    "order": (frame(), frame().iloc[::-1]),
    "order of columns": (frame(), frame()[["b", "a", "c", "d", "e", "f", "g"]]),
    "type": (frame(), with_columns(a=lambda f: f.a.astype("int32"))),
    "categories": (frame(), with_columns(e=lambda f: f.e.cat.add_categories("more"))),
    "missing": (frame(), frame().assign(f=pd.array([1, 2] * 90, dtype="Int64"))),
    "index": (frame(), frame().set_index(pd.RangeIndex(1, 181))),
    "name": (frame().b, frame().b.rename("c")),
    "attributes": (frame(), with_source(frame())),
    "rights": (np.arange(6), read_only(np.arange(6))),
    "shape": (np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2)),
    "sign of zero": ([0.0], [-0.0]),
    "kind of number": ([1], [True]),
    "borders": (["a", "b,c"], ["a,b", "c"]),
    "nesting": ([[1], 2], [[1, 2]]),
    "order of keys": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "closure": (doubler(3), doubler(4)),
    "part of an object": (Thing(1), Thing(2)),
    "limit": (collections.deque([1], 3), collections.deque([1], 4)),
}


def hashed(value: object) -> ContentHash | None:
    return ContentHasher(AMPLE).hash(value)


@pytest.mark.parametrize("name", MADE_AGAIN)
def test_what_is_made_again_has_the_same_hash(name: str) -> None:
    assert same_content(hashed(MADE_AGAIN[name]()), hashed(MADE_AGAIN[name]())) is True


def test_a_frame_is_the_same_after_a_filter_that_keeps_all_rows() -> None:
    kept = frame()[frame().a >= 0]
    assert same_content(hashed(frame()), hashed(kept)) is True


def test_a_column_is_the_same_whoever_may_write_to_its_array() -> None:
    columns = [pd.Series(values, copy=False) for values in (np.arange(6), read_only(np.arange(6)))]
    assert same_content(*map(hashed, columns)) is True


@pytest.mark.parametrize("name", NEARLY)
def test_what_differs_in_anything_has_another_hash(name: str) -> None:
    one, other = NEARLY[name]
    assert same_content(hashed(one), hashed(other)) is False


def test_of_a_class_that_is_made_again_and_of_what_cannot_be_hashed_nothing_is_known() -> None:
    def made() -> type:
        return type("Made", (), {"__module__": "__main__", "size": 1})

    assert same_content(hashed(made()), hashed(made())) is None
    assert same_content(hashed(made()()), hashed(made()())) is None
    kind = made()
    before = hashed(kind)
    assert same_content(before, hashed(kind)) is True
    kind.size = 2  # pyright: ignore[reportAttributeAccessIssue]
    assert same_content(before, hashed(kind)) is False
    assert hashed(io.StringIO("x")) is None


def test_where_the_time_is_over_there_is_no_hash() -> None:
    spent = ContentHasher(0.0)
    assert spent.hash([object] * 10) is None
    assert spent.is_spent
