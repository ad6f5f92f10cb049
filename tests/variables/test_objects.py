"""Everything that is no frame: built-in values shown, foreign objects named, and none of their code run."""

import collections
import enum
import logging
import math
import sys
import threading
import types
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.patience import patient
from tests.variables.hostile import NAMES, HostileMeta, hostile_objects, ran
from vibe_jupyter.errors import ToolError
from vibe_jupyter.protocol import TABLE_MIME, Resource, Table
from vibe_jupyter.variables.describe import describe_value, summary_line, value_fingerprint, value_line

SECONDS = patient(1.0)
"""Bound on looking at any hostile object."""


class Color(enum.Enum):
    RED = 1


class Size(enum.IntEnum):
    BIG = 9


Point = collections.namedtuple("Point", "x y")


def area(width, height=2, *rest, unit="m", **more):
    """Multiply."""


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (5, "int 5"),
        (True, "bool True"),
        (None, "None"),
        (1.5, "float 1.5"),
        (10**400, "int <int of 1,329 bits>"),
        ("text", "str 'text'"),
        ("x" * 100, f"str '{'x' * 80}'… (100 characters)"),
        (b"ab", "bytes b'ab'"),
        ([1, "a", None], "list of 3 items [1, 'a', None]"),
        (list(range(1_000)), "list of 1,000 items [0, 1, 2, 3, 4, 5, … 994 more]"),
        ({"a": [1, 2], "b": {}}, "dict of 2 items {'a': [… 2 items], 'b': {}}"),
        ({3}, "set of 1 item {3}"),
        (Point(1, 2), "Point of 2 items (1, 2)"),
        (collections.Counter("aab"), "collections.Counter of 2 items {'a': 2, 'b': 1}"),
        (collections.deque([1]), "collections.deque of 1 item deque([1])"),
        (Path("/tmp"), "pathlib.PosixPath /tmp"),
        (Color.RED, "Color.RED"),
        (Size.BIG, "Size 9"),
        (math, "module math"),
        (area, "function area(width, height=2, *rest, unit='m', **more)"),
        (lambda *, key: key, "function <lambda>(*, key)"),
        (len, "built-in function len"),
        (Color, "class Color(enum.Enum)"),
        ((item for item in ()), "<generator>"),
        (threading.Lock(), "<_thread.lock>"),
    ],
)
def test_one_line_says_what_a_value_is(value: object, said: str):
    own = f"{__name__}."

    assert value_line(value).replace(own, "") == said
    assert value_fingerprint(value) == value_fingerprint(value)


def test_what_is_stored_on_a_plain_namespace_is_told() -> None:
    assert describe_value(types.SimpleNamespace(rate=0.1)).body == "attributes: rate=0.1"


@pytest.mark.xdist_group("libraries")
def test_a_figure_is_named_with_its_size_and_axes() -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 3))
    assert value_line(figure) == "matplotlib Figure 4 × 3 inches, 0 axes"
    assert value_fingerprint(figure) == value_fingerprint(figure)


@pytest.mark.xdist_group("libraries")
def test_a_chart_in_three_dimensions_is_not_called_empty() -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot(projection="3d")
    axes.scatter([1, 2], [2, 3], [3, 4])
    axes.set_zlabel("depth (m)")

    assert describe_value(figure).body == 'matplotlib 3D chart; z "depth (m)"; data not read'


async def test_a_long_text_is_shown_further_when_inspected(namespace, inspect, text_of):
    namespace["text"] = "word " * 1_000

    result = await inspect("text")

    assert text_of(result).count("word ") > 300
    assert len(text_of(result)) < 3_000
    assert "text/plain" in result.display


async def test_an_object_is_told_by_its_class_and_the_names_it_has(namespace, inspect, text_of):
    class Model:
        def __init__(self) -> None:
            self.weights = [1]
            self._secret = 2

        def fit(self) -> None: ...

        @property
        def score(self) -> float:
            raise AssertionError("a property was read")

    namespace["model"] = Model()

    text = text_of(await inspect("model"))

    assert text.split("\n")[1:] == ["attributes: weights=[1]", text.split("\n")[2]]
    assert text.split("\n")[2].endswith("Model defines: fit, score")


async def test_a_function_is_told_with_where_it_stands(namespace, inspect, text_of):
    namespace["area"] = area

    text = text_of(await inspect("area"))

    assert f"defined in {__file__}, line " in text
    assert text.endswith("Multiply.")


@pytest.mark.attack("orders in data", always=True)
@pytest.mark.requirement("notebook.variables.safe")
@pytest.mark.xdist_group("libraries")
@pytest.mark.parametrize("name", NAMES)
def test_no_code_of_a_hostile_object_runs(name: str, caplog: pytest.LogCaptureFixture):
    value = hostile_objects()[name]
    said: list[str] = []
    ran.clear()

    def look() -> None:
        said.append(summary_line("it", value))
        said.append(describe_value(value).headline)
        value_fingerprint(value)

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(SECONDS)

    assert ran == []
    assert not looking.is_alive()
    assert len(said) == 2
    assert said[0].startswith("it: ")
    assert caplog.records == []


@pytest.mark.xdist_group("libraries")
@pytest.mark.parametrize("name", ["object", "list", "int", "lying class", "false frame", "array subclass"])
def test_the_hostile_objects_do_run_code_when_they_are_asked_for_their_repr(name: str):
    value = hostile_objects()[name]
    ran.clear()

    asking = threading.Thread(target=lambda: repr(value), daemon=True)
    asking.start()
    asking.join(SECONDS)

    assert ran != []


@pytest.mark.attack("orders in data", always=True)
@pytest.mark.requirement("notebook.variables.safe")
@pytest.mark.xdist_group("libraries")
def test_a_hostile_object_in_a_frame_is_named_by_its_class():
    described = describe_value(hostile_objects()["in a frame"])

    assert "b | object | 1 | " in described.body
    assert "Hostile" in described.body
    assert described.body.count("<") >= 2


@pytest.mark.requirement("notebook.variables.list")
async def test_variables_are_listed_by_name_with_type_and_shape(namespace, inspect, text_of):
    import pandas as pd

    namespace |= {"x": 1, "df": pd.DataFrame({"a": [1]}), "df_2": [1], "math": math, "pd": pd}

    result = await inspect()

    assert text_of(result) == (
        "3 variables\ndf: pandas DataFrame 1 × 1 (a int64)\ndf_2: list of 1 item [1]\nx: int 1\nmodules: math, pd"
    )
    assert result.summary == "3 variables"
    assert Table.model_validate(result.display[TABLE_MIME]).rows[2] == ("x", "int 1")


@pytest.mark.requirement("notebook.variables.list")
@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"names": ["a*"]}, ["a1", "a2"]),
        ({"types": ["STR"]}, ["a2", "b"]),
        ({"types": ["int", "float"]}, ["a1", "c"]),
        ({"names": ["a*"], "types": ["str"]}, ["a2"]),
        ({"types": ["module"]}, []),
        ({"names": ["nothing*"]}, []),
    ],
)
async def test_a_glob_and_types_filter_the_list(namespace, inspect, text_of, asked, names):
    namespace |= {"a1": 1, "a2": "x", "b": "y", "c": 1.5, "math": math}

    text = text_of(await inspect(**asked))

    assert [line.split(":")[0] for line in text.split("\n")[1:] if not line.startswith("modules")] == names


@pytest.mark.requirement("notebook.variables.list")
async def test_the_list_is_cut_at_its_limit_and_says_how_to_see_the_rest(namespace, inspect, text_of):
    namespace |= {f"v{number:03}": number for number in range(160)}

    short, long = await inspect(limit=2), await inspect()

    assert text_of(short).split("\n") == [
        "160 variables",
        "v000: int 0",
        "v001: int 1",
        "… 158 more; narrow with a glob such as df*",
    ]
    assert short.summary == "160 variables, first 2 shown"
    assert text_of(long).count("\n") == 101
    with pytest.raises(ValidationError):
        await inspect(limit=0)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("penguin", "There is no variable 'penguin'. Did you mean penguins?"),
        ("zebra", "There is no variable 'zebra'. Call inspect without names for the list."),
        ("penguins.head()", "'penguins.head()' is neither a variable's name nor a path"),
    ],
)
async def test_a_name_that_is_not_there_is_an_error_that_helps(namespace, inspect, name: str, said: str):
    namespace["penguins"] = 1

    with pytest.raises(ToolError) as refusal:
        await inspect(name)

    assert str(refusal.value).startswith(said)


async def test_the_policy_is_told_which_variable_is_read(context):
    from vibe_jupyter.variables.tools import InspectArgs, InspectTool

    tool = InspectTool(dict, None)  # type: ignore[arg-type]

    assert tool.level == "always"
    assert tool.touches(InspectArgs(names=["x", "y"])) == tuple(
        Resource(kind="variable", value=name, access="read") for name in "xy"
    )
    assert tool.touches(InspectArgs()) == (Resource(kind="variable", value="*", access="read"),)


def test_a_value_that_cannot_be_described_does_not_hide_the_others(caplog: pytest.LogCaptureFixture):
    import pandas as pd

    broken = pd.DataFrame({"a": [1]})
    del broken.__dict__["_mgr"]
    caplog.set_level(logging.CRITICAL)

    assert value_line(broken) == "<pandas.DataFrame> (could not be described: KeyError)"
    assert isinstance(value_fingerprint(broken), int)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (lambda value: value.append(1), [1, 2]),
        (lambda value: value.__setitem__(1, 9), [1, 2]),
        (lambda value: value.update(a=2), {"a": 1}),
        (lambda value: value.__setitem__(0, -2), [-1]),
    ],
)
def test_a_small_container_changed_in_place_has_another_fingerprint(change, value):
    before = value_fingerprint(value)

    change(value)

    assert value_fingerprint(value) != before


def test_describing_imports_no_library(tmp_path: Path):
    import subprocess

    code = (
        "import sys\n"
        "from vibe_jupyter.variables.describe import describe_value, value_fingerprint, summary_line\n"
        "for value in (1, 'a', [1], {}, object(), sys):\n"
        "    summary_line('x', value), describe_value(value), value_fingerprint(value)\n"
        "print([name for name in ('numpy', 'pandas', 'polars', 'torch', 'pydantic', 'httpx') if name in sys.modules])"
    )
    root = Path(__file__).parents[2]

    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)

    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ([0.5] * 1_999 + [2.5], "y 0.5 … 2.5"),
        ([1] * 1_999 + [3], "y 1 … 3"),
        ([1, 0.5] * 1_000, "y 0.5 … 1"),
    ],
)
def test_the_numbers_of_a_chart_are_found_without_asking_what_is_none(numbers: list[float], told: str) -> None:
    import plotly.graph_objects

    stranger: object = object.__new__(type.__new__(HostileMeta, "Named", (), {}))
    figure = plotly.graph_objects.Figure(plotly.graph_objects.Scatter(y=[0, 1]))
    ran.clear()

    for values in ([*numbers, stranger], [stranger, *numbers]):
        figure._data[0]["y"] = values
        assert f"; {told}; n=2001, " in describe_value(figure).body

    assert ran == []
