"""What a failed piece of code is told of the name that was missing."""

from functools import cache

import pytest

from vibe_jupyter.protocol import RaisedError
from vibe_jupyter.variables.missing_names import MissingNames


class Settings:
    def __init__(self) -> None:
        self.width = 3


pytestmark = pytest.mark.xdist_group("libraries")
COLUMNS = "The columns are city, price."


@cache
def namespace() -> dict[str, object]:
    import pandas as pd

    flats = pd.DataFrame({"city": ["Bern"], "price": [1.5]})
    return {"flats": flats, "config": {"alpha": 1}, "settings": Settings()}


def hint(code: str, *, in_copy: bool = False) -> str:
    """What is said of the error that this code raises."""
    try:
        exec(code, namespace().copy())
    except Exception as error:  # noqa: BLE001 - whatever the code raises
        raised = RaisedError(name=type(error).__name__, message=str(error), traceback="")
        return MissingNames(namespace).hint(code, raised, in_copy=in_copy)
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("flats['prise'].sum()", f"No column 'prise'. Did you mean 'price'? {COLUMNS}"),
        ("flats.groupby('town').size()", f"No column 'town'. {COLUMNS}"),
        ("flats.prices.sum()", f"No column 'prices'. Did you mean 'price'? {COLUMNS}"),
        ("x = 1\nconfig['alfa'] + x", "There is no key 'alfa'. Did you mean alpha?"),
        ("flat.shape", "There is no variable 'flat'. Did you mean flats?"),
        ("settings.widht", "There is no stored attribute 'widht'. Did you mean width?"),
    ],
)
def test_what_is_near_a_missing_name_is_named(code: str, says: str) -> None:
    assert hint(code) == says


@pytest.mark.parametrize(
    ("code", "says", "says_in_a_copy"),
    [
        ("flats['prise']", f"No column 'prise'. Did you mean 'price'? {COLUMNS}", True),
        ("flats = flats.copy()\nflats['prise']", f"No column 'prise'. Did you mean 'price'? {COLUMNS}", False),
        ("x = flats\nconfig['alfa']", "There is no key 'alfa'. Did you mean alpha?", True),
        ("config = config | {}\nconfig['alfa']", "There is no key 'alfa'. Did you mean alpha?", False),
        ("for flats in [flats]:\n    flats['prise']", f"No column 'prise'. Did you mean 'price'? {COLUMNS}", False),
        ("(flats := flats)['prise']", f"No column 'prise'. Did you mean 'price'? {COLUMNS}", False),
    ],
)
def test_of_a_variable_that_the_code_binds_itself_something_is_said_where_it_stays(
    code: str, says: str, *, says_in_a_copy: bool
) -> None:
    assert hint(code) == says
    assert hint(code, in_copy=True) == (says if says_in_a_copy else "")


@pytest.mark.parametrize("code", ["1 / 0", "unheard_of", "{}['key']", "raise KeyError('price')", "int('x')"])
def test_nothing_is_said_where_nothing_is_near_or_missing(code: str) -> None:
    assert hint(code) == ""


def test_code_that_is_no_python_is_not_looked_through() -> None:
    raised = RaisedError(name="NameError", message="name 'flat' is not defined", traceback="")
    assert MissingNames(namespace).hint("%time flat", raised) == ""
