"""What variables held before code is restored, in place, whatever the code did to them."""

import collections
import contextlib
import random
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, SGDClassifier

from vibe_jupyter.variables.kept import MOST_COPIED, KeptVariables


class Model:
    """As a user writes one."""

    def __init__(self) -> None:
        self.weights = np.zeros(3)
        self.history: list[float] = []

    def fit(self) -> None:
        self.weights += 1
        self.history.append(0.5)
        self.loss = 0.1


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self) -> None:
        self.left = [1]


def world() -> dict[str, Any]:
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [1.5, None, 2.5], "c": ["x", "y", "z"]}, index=list("pqr"))
    inner = [1, 2]
    return {
        "frame": frame,
        "alias": frame,
        "series": pd.Series([3, 1, 2], name="s"),
        "grouped": pd.DataFrame({"k": pd.Categorical(["u", "v"]), "t": pd.to_datetime(["2020-01-01", "2021-01-01"])}),
        "table": pl.DataFrame({"a": [1, 2]}),
        "array": np.arange(6.0).reshape(2, 3),
        "words": np.array(["a", [1]], dtype=object),
        "mask": np.array([True, False]),
        "items": [3, 1, inner],
        "nested": {"a": {"b": [1]}, "inner": inner, "frame": frame},
        "group": {1, 2},
        "queue": collections.deque([1, 2], maxlen=3),
        "counts": collections.Counter("aab"),
        "defaults": collections.defaultdict(list, x=[1]),
        "raw": bytearray(b"abc"),
        "model": Model(),
        "fitted": LinearRegression().fit([[0], [1]], [0, 1]),
        "classifier": SGDClassifier(max_iter=5, tol=None).fit([[0], [1]], [0, 1]),
        "place": SimpleNamespace(x=1, parts=[1]),
        "slotted": Slotted(),
        "dice": random.Random(1),
        "rng": np.random.default_rng(1),
        "old_rng": np.random.RandomState(1),
        "pair": ([1], [2]),
        "number": 7,
        "text": "old",
    }


MUTATIONS = """
frame['new'] = 1
frame.loc['p', 'a'] = 99
frame.iloc[0, 1] = -1.0
frame.drop(columns='a', inplace=True)
frame.drop(index='p', inplace=True)
frame.dropna(inplace=True)
frame.rename(columns={'a': 'z'}, inplace=True)
frame.columns = ['x', 'y', 'z']
frame.index = [7, 8, 9]
frame.index.name = 'id'
frame.sort_values('a', ascending=False, inplace=True)
frame.reset_index(inplace=True)
frame['a'] = frame['a'].astype(float)
frame.attrs['source'] = 'made up'
frame.insert(0, 'first', 0)
frame.pop('b')
del frame['c']
frame.fillna(0, inplace=True)
frame.update(pd.DataFrame({'a': [9]}, index=['q']))
frame = frame.head(1)
alias['through'] = 1
nested['frame']['deep'] = 1
frame.loc['new'] = [1, 2.0, 'n']
frame.replace(1, 2, inplace=True)
frame.mask(frame['a'] > 1, inplace=True)
series.iloc[0] = 9
series.sort_values(inplace=True)
series.name = 'renamed'
series['more'] = 1
series.drop(0, inplace=True)
grouped['k'] = grouped['k'].cat.add_categories('w')
grouped['t'] += pd.Timedelta(days=1)
grouped.set_index('t', inplace=True)
table.insert_column(0, pl.Series('z', [0, 0]))
table.columns = ['q']
table.drop_in_place('a')
table = table.head(1)
array += 1
array[0, 0] = 9
array[:] = 0
array[::-1].sort(axis=0)
array.fill(3)
array[array > 2] = 0
np.negative(array, out=array)
array.T[0] = 5
array = array.astype(int)
array.resize((3, 2), refcheck=False)
words[0] = 'b'
words[1].append(2)
mask[:] = ~mask
items.append(4)
items.sort(key=str)
items.clear()
items[2].append(3)
items[:] = []
items.reverse()
items += [1]
del items[0]
nested['a']['b'].append(2)
nested['a']['b'] = 7
nested.update(z=1)
nested.clear()
nested.pop('a')
nested['inner'].clear()
nested['inner'] = None
group.add(3)
group.clear()
group &= {1}
queue.append(5)
queue.rotate(1)
queue.popleft()
counts.update('abc')
counts['z'] += 1
defaults['new'].append(1)
defaults['x'].append(2)
raw[0] = 0
raw.extend(b'd')
model.fit()
model.weights = None
model.history.extend([1, 2])
del model.weights
model.__dict__.clear()
fitted.fit([[0], [1]], [5, 7])
fitted.coef_[0] = 9
fitted.set_params(fit_intercept=False)
classifier.partial_fit([[3]], [1])
classifier.coef_ += 1
place.x = 2
place.parts.append(2)
place.new = 1
del place.x
slotted.left.append(2)
slotted.left = None
slotted.right = 1
del slotted.left
dice.random()
dice.seed(7)
rng.random(10)
rng.shuffle([1, 2, 3])
old_rng.rand(3)
old_rng.seed(5)
pair[0].append(1)
number += 1
text = text + '!'
del number
made = frame.copy()
for i in range(3): made = i
def touch(): frame.loc['p', 'a'] = 5\\ntouch()
globals()['items'].append(1)
exec("items.append(2)")
[one.append(0) for one in pair]
frame, series = series, frame
items = nested = None
import math
""".strip().splitlines()


def as_text(name: str, value: Any) -> str:
    """All of a value, for two of them to be compared."""
    match value:
        case pd.DataFrame() | pd.Series():
            held = value.to_frame() if isinstance(value, pd.Series) else value
            axes = (held.index, held.index.name, list(held.columns), list(held.dtypes), value.attrs)
            return f"{axes} {held.to_dict()} {getattr(value, 'name', '')}"
        case pl.DataFrame():
            return f"{value.schema} {value.rows()}"
        case np.ndarray():
            return f"{value.dtype} {value.shape} {value.tolist()}"
        case random.Random():
            return repr(value.getstate())
        case np.random.Generator():
            return repr(value.bit_generator.state)
        case np.random.RandomState():
            return repr(value.get_state(legacy=False))
        case Slotted():
            return repr([getattr(value, one, "nothing") for one in ("left", "right")])
        case dict():
            return repr({key: as_text(name, held) for key, held in value.items()})
        case Model() | LinearRegression() | SGDClassifier() | SimpleNamespace():
            return repr({key: as_text(name, held) for key, held in vars(value).items()})
        case _:
            return repr(value)


def texts(names: dict[str, Any]) -> dict[str, str]:
    left_out = ("np", "pd", "pl")
    return {name: as_text(name, one) for name, one in names.items() if name[0] != "_" and name not in left_out}


def kept_in(namespace: dict[str, Any]) -> KeptVariables:
    return KeptVariables(lambda: {name: one for name, one in namespace.items() if name[0] != "_"}, namespace)


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("code", MUTATIONS)
def test_code_is_undone_bit_for_bit_and_all_that_hold_an_object_see_it(code: str) -> None:
    code = code.replace("\\n", "\n")
    namespace: dict[str, Any] = {**world(), "np": np, "pd": pd, "pl": pl}
    before, objects = texts(namespace), dict(namespace)
    kept = kept_in(namespace)
    kept.before_code(code)
    exec(code, namespace)
    assert kept.end_run()
    assert kept.changed_since == ()
    assert kept.restore()
    assert texts(namespace) == before
    assert all(namespace[name] is one for name, one in objects.items())
    assert namespace["nested"]["frame"] is namespace["alias"] is namespace["frame"]
    assert kept.lost == {}
    assert kept.restore() == ()


def test_code_that_only_looks_changes_nothing() -> None:
    namespace = world()
    kept = kept_in(namespace)
    kept.before_code("frame.describe(), array.sum(), items, model.weights, rng")
    assert kept.end_run() == ()
    namespace["items"].append("the user's own")
    assert kept.restore() == ()
    assert namespace["items"][-1] == "the user's own"


class _Guarded:
    """Counts who asks for its attributes."""

    __slots__ = ("__own", "asked")

    def __init__(self) -> None:
        self.__own = 1
        self.asked = 0

    def __getattribute__(self, name: str) -> Any:
        if name != "asked":
            object.__setattr__(self, "asked", self.asked + 1)
        return object.__getattribute__(self, name)

    def spend(self) -> None:
        self.__own += 1


def test_private_slots_are_restored_and_no_code_of_the_class_is_run_for_that() -> None:
    guarded = _Guarded()
    namespace: dict[str, Any] = {"guarded": guarded}
    kept = kept_in(namespace)
    kept.before_code("guarded.spend()")
    guarded.spend()
    asked = guarded.asked
    assert kept.end_run() == ("guarded",)
    assert guarded.asked == asked
    assert kept.restore() == ("guarded",)
    assert (object.__getattribute__(guarded, "_Guarded__own"), guarded.asked) == (1, 0)


def test_a_run_without_code_changed_nothing() -> None:
    namespace = world()
    kept = kept_in(namespace)
    assert kept.end_run() == ()
    assert kept.changed_since == ()
    assert kept.restore() == ()
    assert namespace.keys() == world().keys()


def test_what_the_user_changed_since_is_named() -> None:
    namespace = world()
    kept = kept_in(namespace)
    kept.before_code("items.append(1)\nnumber = 8")
    namespace["items"].append(1)
    namespace["number"] = 8
    assert kept.end_run() == ("number", "items")
    assert kept.changed_since == ()
    namespace["number"] = 9
    assert kept.changed_since == ("number",)


def test_what_cannot_be_kept_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(8))
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        namespace: dict[str, Any] = {
            "connection": connection,
            "steps": (one for one in range(3)),
            "mapped": np.memmap(tmp_path / "file", mode="r+"),
            "large": np.zeros(MOST_COPIED // 8 + 1),
            "mixed": [[1], connection],
            "small": [1],
        }
        kept = kept_in(namespace)
        kept.before_code("connection, steps, mapped, large, mixed, small")
        namespace["mixed"][0].append(2)
        namespace["small"].append(2)
        assert set(kept.lost) == {"connection", "steps", "mapped", "large"} | ({"mixed"} & set(kept.lost))
        assert kept.lost["large"] == "it is too large to keep"
        kept.end_run()
        kept.restore()
        assert (namespace["mixed"][0], namespace["small"]) == ([1], [1])
