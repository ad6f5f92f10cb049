"""What variables held before code is restored, in place, whatever the code did to them."""

import contextlib
import copy
import math
import sqlite3
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.on_use import OnUse
from tests.patience import patient
from tests.variables.mutations import MUTATIONS, OTHERS, close_all, own_names, world
from vibe_jupyter.variables.kept import MOST_COPIED, KeptVariables
from vibe_jupyter.variables.kept_libraries import COMPARED

pytestmark = pytest.mark.xdist_group("libraries")
np = OnUse("numpy")
value_text = OnUse("tests.variables.value_text")

EACH = 8
"""One mutation in this many is tried here; the sweep `undo` tries all."""


def kept_in(namespace: dict[str, Any]) -> KeptVariables:
    return KeptVariables(lambda: own_names(namespace), namespace)


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("code", MUTATIONS[::EACH])
def test_code_is_undone_bit_for_bit_and_all_that_hold_an_object_see_it(code: str) -> None:
    namespace = world()
    before, objects = value_text.texts(own_names(namespace)), dict(namespace)
    kept = kept_in(namespace)
    assert kept.not_undone(code) == {}
    kept.before_code(code)
    exec(code, namespace)
    assert kept.end_run()
    assert kept.changed_since == ()
    assert kept.restore()
    assert value_text.texts(own_names(namespace)) == before
    assert all(namespace[name] is one for name, one in objects.items())
    assert kept.lost == {}
    assert kept.restore() == ()


@pytest.mark.parametrize("made", OTHERS)
def test_what_would_not_be_undone_is_named_before_the_code_runs(
    made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace = world()
    exec(made, namespace)
    kept = kept_in(namespace)
    try:
        assert set(kept.not_undone(OTHERS[made])) == {made.split(" ")[0]}
        assert kept.lost == {}
    finally:
        close_all(namespace)


def test_code_that_only_looks_changes_nothing() -> None:
    namespace = world()
    kept = kept_in(namespace)
    kept.before_code("frame.describe(), matrix.sum(), items, model.weights, rng")
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


def test_a_class_is_not_changed_by_what_python_notes_in_it_as_an_instance_is_pickled() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("class Own: pass\nown = Own()", namespace)
    kept = kept_in(namespace)
    kept.before_code("copy.copy(own)")
    copy.copy(namespace["own"])
    assert "__slotnames__" in vars(namespace["Own"])
    assert kept.end_run() == ()


def test_a_run_without_code_changed_nothing() -> None:
    namespace = world()
    kept = kept_in(namespace)
    assert kept.end_run() == ()
    assert kept.changed_since == ()
    assert kept.restore() == ()
    assert own_names(namespace).keys() == own_names(world()).keys()


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


def test_what_another_variable_holds_too_is_named_by_its_own_name_as_well() -> None:
    table = [1, 2]
    namespace: dict[str, Any] = {"table": table, "tables": {"first": table}}
    kept = kept_in(namespace)
    kept.before_code("tables['first'] is table; table.append(3)")
    table.append(3)
    assert kept.end_run() == ("table", "tables")
    table.append(4)
    assert kept.changed_since == kept.restore() == ("table", "tables")
    assert table == [1, 2]


@pytest.mark.parametrize(
    ("theirs", "name"),
    [
        ("settings.n = 9", "settings"),
        ("nested['deep'][0].append(5)", "nested"),
        ("frame.index = [7, 8, 9]", "frame"),
        ("frame.attrs['unit'] = 'kg'", "frame"),
        ("matrix[40_001] = 5", "matrix"),
    ],
)
def test_what_the_user_changed_since_is_named_wherever_it_stands(theirs: str, name: str) -> None:
    namespace: dict[str, Any] = {}
    made = (
        "import types, numpy as np, pandas as pd\n"
        "settings, nested = types.SimpleNamespace(n=1), {'deep': [[1]]}\n"
        "frame, matrix = pd.DataFrame({'a': [1, 2, 3]}), np.zeros(100_000)\n"
    )
    exec(made, namespace)
    kept = kept_in(namespace)
    run = "settings.n = 2; nested['deep'][0].append(4); frame.loc[0, 'a'] = 5; frame.attrs['n'] = 1; matrix[0] = 1"
    kept.before_code(run)
    exec(run, namespace)
    assert set(kept.end_run()) == {"settings", "nested", "frame", "matrix"}
    assert kept.changed_since == ()
    exec(theirs, namespace)
    assert kept.changed_since == (name,)


def test_a_list_of_a_million_records_is_given_up_soon() -> None:
    begun = time.thread_time()
    rows = [{"n": n} for n in range(1_000_000)]
    made = time.thread_time() - begun
    kept = kept_in({"rows": rows})
    begun = time.thread_time()
    kept.before_code("len(rows)")
    assert time.thread_time() - begun < 2 * made
    assert kept.lost == {"rows": "it has too many parts to keep"}


def test_a_large_array_is_compared_in_little_memory() -> None:
    namespace = {"matrix": np.ones((4_000_000, 2))}
    kept = kept_in(namespace)
    kept.before_code("matrix.sum()")
    tracemalloc.start()
    try:
        assert kept.end_run() == ()
        assert tracemalloc.get_traced_memory()[1] < namespace["matrix"].nbytes / 4
    finally:
        tracemalloc.stop()


def test_a_dict_that_a_thread_fills_meanwhile_ends_no_run() -> None:
    filled: dict[int, int] = {}
    over, interval = threading.Event(), sys.getswitchinterval()

    def fill() -> None:
        while not over.is_set():
            filled.update((n, n) for n in range(200))
            filled.clear()

    thread = threading.Thread(target=fill)
    thread.start()
    sys.setswitchinterval(1e-6)  # the shortest
    try:
        for _ in range(300):
            kept = kept_in({"filled": filled})
            kept.before_code("len(filled)")
            assert set(kept.end_run()) <= {"filled"}
    finally:
        sys.setswitchinterval(interval)
        over.set()
        thread.join(patient(10))


def test_what_cannot_be_kept_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(8))
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        namespace: dict[str, Any] = {
            "connection": connection,
            "steps": (one for one in range(3)),
            "mapped": np.memmap(tmp_path / "file", mode="r+"),
            "large": np.zeros(MOST_COPIED // 8 + 1),
            "buffer": bytearray(MOST_COPIED + 1),
            "mixed": [[1], connection],
            "small": [1],
        }
        kept = kept_in(namespace)
        kept.before_code("connection, steps, mapped, large, buffer, mixed, small")
        namespace["mixed"][0].append(2)
        namespace["small"].append(2)
        assert set(kept.lost) == {"connection", "steps", "mapped", "large", "buffer"} | ({"mixed"} & set(kept.lost))
        assert kept.lost["large"] == kept.lost["buffer"] == "it is too large to keep"
        kept.end_run()
        kept.restore()
        assert (namespace["mixed"][0], namespace["small"]) == ([1], [1])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_large_frame_is_told_as_changed_by_its_values_alone(library: str) -> None:
    frames: Any = pytest.importorskip(library)
    numbers = np.arange(3 * COMPARED // 2 // 8, dtype="float64")
    namespace: dict[str, Any] = {"frame": frames.DataFrame({"a": numbers, "b": numbers})}
    same = "frame['a'] = frame['a'].fillna(0.0)" if library == "pandas" else "frame.replace_column(0, frame['a'] * 1.0)"
    other = "frame.loc[7, 'b'] = -0.0" if library == "pandas" else "frame[7, 'b'] = 8.0"
    for code, changed in ((same, ()), (other, ("frame",))):
        kept = KeptVariables(lambda: own_names(namespace), namespace, compared=math.inf)
        kept.before_code(code)
        exec(code, namespace)
        assert kept.end_run() == changed


def test_what_stands_for_an_object_that_is_not_there_yet_is_not_asked() -> None:
    asked: list[str] = []

    def ask(name: str) -> object:
        asked.append(name)
        raise RuntimeError("working outside of request context")

    class Settings:
        """As `django.conf.settings`, which has attributes of its own too."""

        __class__ = property(lambda _: ask("__class__"))  # type: ignore[assignment]

    class Request:
        """As `flask.request`, whose own attributes are out of reach."""

        __class__ = property(lambda _: ask("__class__"))  # type: ignore[assignment]
        __dict__ = property(lambda _: ask("__dict__"))  # type: ignore[assignment]

    class Later:
        """As proxies of wrapt: whatever it is asked goes to the other object."""

        def __getattribute__(self, name: str) -> object:
            return ask(name)

    there = [Settings(), Later()]
    namespace: dict[str, Any] = {"there": there, "request": Request()}
    kept = kept_in(namespace)
    kept.before_code("there.clear(), request")
    first = there.pop(0)
    assert kept.end_run() == kept.restore() == ("there",)
    assert there[0] is first
    assert set(kept.lost) == {"request"}
    assert asked == []
