"""Arguments of a tool are described by its docstring, in each of the three usual styles."""

import pytest

from vibe_jupyter.tools.custom import parse_docstring

GOOGLE = """Area of a rectangle.

    In square metres.

    Args:
        width (float): Length of one side,
            in metres: inside.

        *more: Further sides.
    And text that belongs to none.

    Returns:
        area: the product.
    """
NUMPY = """Area of a rectangle.

    In square metres.

    Parameters
    ----------
    width : float
        Length of one side,
        in metres: inside.
    more
        Further sides.

    Returns
    -------
    area : float
        The product.
    """
SPHINX = """Area of a rectangle.

    In square metres.

    :param width: Length of one side,
        in metres: inside.
    :type width: float
    :param float more: Further sides.
    :returns: the product.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_summary_and_arguments_are_found(text: str) -> None:
    found = parse_docstring(text)
    assert found.summary == "Area of a rectangle.\n\nIn square metres."
    assert found.arguments == {"width": "Length of one side, in metres: inside.", "more": "Further sides."}


@pytest.mark.parametrize("text", [None, "", "One line.", "Args:", "Args:\n    no words here"])
def test_a_docstring_without_arguments_has_none(text: str | None) -> None:
    assert not parse_docstring(text).arguments
