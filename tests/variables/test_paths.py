"""Paths of names, keys and attributes: what is stored is told, what only code can tell is refused."""

import collections
import math
import types
from typing import ClassVar

import pytest

from tests.on_use import OnUse
from vibe_jupyter.errors import ToolError

xarray = OnUse("xarray")


class Slotted:
    __slots__ = ("size", "unset")

    def __init__(self) -> None:
        self.size = 7


class Hostile:
    """Whatever is asked of it runs its code, which says so."""

    ran: ClassVar[list[str]] = []
    kind = "plain"
    level = "own"

    def __init__(self) -> None:
        self.stored = "text"

    def __getattr__(self, name: str) -> object:
        self.ran.append(name)
        raise RuntimeError(name)

    def __getitem__(self, key: object) -> object:
        self.ran.append(str(key))
        return key

    def __eq__(self, other: object) -> bool:
        self.ran.append("eq")
        return False

    def __hash__(self) -> int:
        return hash("key")

    @property
    def computed(self) -> int:
        self.ran.append("computed")
        return 1


class HostileDict(dict[object, object]):
    def __getitem__(self, key: object) -> object:
        Hostile.ran.append("item")
        return None

    def items(self) -> object:
        Hostile.ran.append("items")
        return ()


class Heir(Hostile):
    """Takes some of the other's attributes, and has others of its own."""

    kind = "of the heir"


Point = collections.namedtuple("Point", "x y")
VALUES = {
    "d": {"k": {"deep": [1, 2, "last"]}, 3: "three", (1, "a"): "pair", True: "truth"},
    "ordered": collections.OrderedDict(a=1),
    "own": HostileDict(key="found"),
    "bag": {Hostile(): "hidden", "key": "shown"},
    "point": Point(1, 2),
    "slotted": Slotted(),
    "hostile": Hostile(),
    "math": math,
    "Hostile": Hostile,
    "heir": Heir(),
    "Heir": Heir,
    "text": "abc",
}


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    Hostile.ran.clear()  # a key of another class is compared while VALUES is made


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ('d["k"]["deep"][-1]', "str 'last'"),
        ("d[3]", "str 'three'"),
        ("d[1, 'a']", "str 'pair'"),
        ("d[True]", "str 'truth'"),
        ("ordered['a']", "int 1"),
        ("own['key']", "str 'found'"),
        ("bag['key']", "str 'shown'"),
        ("point.y", "int 2"),
        ("point[0]", "int 1"),
        ("slotted.size", "int 7"),
        ("hostile.stored", "str 'text'"),
        ("hostile.kind", "str 'plain'"),
        ("Hostile.kind", "str 'plain'"),
        ("heir.kind", "str 'of the heir'"),
        ("Heir.kind", "str 'of the heir'"),
        ("heir.level", "str 'own'"),
        ("Heir.level", "str 'own'"),
        ("math.pi", "float 3.14"),
    ],
)
async def test_a_path_leads_to_what_is_stored(namespace, inspect, text_of, path: str, told: str) -> None:
    namespace |= VALUES

    text = text_of(await inspect(path))

    assert text.startswith(f"{path}: {told}")
    assert Hostile.ran == []


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("hostile.computed", "'computed' is computed by the code of "),
        ("hostile.missing", "There is no stored attribute 'missing'. run_code evaluates it."),
        ("hostile.store", "There is no stored attribute 'store'. Did you mean stored?"),
        ("hostile['x']", "Only its own code can look up an item of a "),
        ("slotted.unset", "The attribute 'unset' has no value yet."),
        ("math.sinus", "There is no attribute 'sinus'. Did you mean sin"),
        ("d['kk']", "There is no key 'kk'. Did you mean k?"),
        ("d[9]", "There is no key 9. The first keys are 'k', 3, (1, 'a'), True."),
        ("d['k']['deep'][3]", "There is no item 3: the list has 3."),
        ("d['k']['deep']['x']", "'x' is no place in a list: give a whole number."),
        ("text[0]", "Only its own code can look up an item of a str."),
        ("nothing.at.all", "There is no variable 'nothing'."),
        ("d[x]", "'d[x]' is neither a variable's name nor a path"),
        ("f()", "'f()' is neither a variable's name nor a path"),
        ("d[", "'d[' is neither a variable's name nor a path"),
        ("", "'' is neither a variable's name nor a path"),
        ("d" + "[0]" * 5_000, ("'d[0]", "There is no key 0.")),  # from Python 3.14 on it can be parsed
    ],
)
async def test_a_path_that_leads_nowhere_says_why_and_what_is_near(
    namespace, inspect, path: str, said: str | tuple[str, ...]
) -> None:
    namespace |= VALUES

    with pytest.raises(ToolError) as refusal:
        await inspect(path)

    assert str(refusal.value).startswith(said)
    assert Hostile.ran == []


async def test_of_several_names_those_that_are_there_are_told(namespace, inspect, text_of) -> None:
    namespace |= {"price": 3, "prices": [1, 2], "module": types}

    result = await inspect("price", "prise", "prices[1]", "pri*")

    assert text_of(result).split("\n\n") == [
        "price: int 3",
        "There is no variable 'prise'. Did you mean price or prices?",
        "prices[1]: int 2",
        "2 variables\nprice: int 3\nprices: list of 2 items [1, 2]",
    ]
    assert (result.is_error, result.summary) == (False, "3 of 4 found")
    assert (await inspect("no", "none")).is_error


async def test_many_large_values_share_the_room_of_one_result(namespace, inspect, text_of) -> None:
    namespace |= {f"v{number}": {f"key{at}": "x" * 50 for at in range(500)} for number in range(20)}

    text = text_of(await inspect(*namespace))

    assert len(text) <= 8_000
    assert all(f"v{number}: dict" in text for number in range(20))


@pytest.mark.parametrize("path", ["ocean.sst", 'ocean["sst"]'])
async def test_a_variable_of_a_dataset_is_found_by_either_spelling(namespace, inspect, text_of, path: str) -> None:
    namespace["ocean"] = xarray.Dataset({"sst": (("lat", "lon"), [[271.5, 280.0], [290.5, 301.0]])})

    text = text_of(await inspect(path))

    assert text.startswith(f"{path}: xarray DataArray sst lat 2, lon 2 float64")
    assert "271.5" in text


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("ocean['sts']", "There is no variable 'sts' in it. Did you mean sst?"),
        ("ocean[3]", "There is no variable 3 in it."),
        ("ocean.sizes", "'sizes' is computed by the code of "),
    ],
)
async def test_what_a_dataset_does_not_hold_is_refused(
    namespace, inspect, path: str, said: str | tuple[str, ...]
) -> None:
    namespace["ocean"] = xarray.Dataset({"sst": ("lat", [1.0, 2.0])})

    with pytest.raises(ToolError) as refusal:
        await inspect(path)

    assert str(refusal.value).startswith(said)
