"""The two ways to describe variables to the model: with values, or by names, types and counts only."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from vibe_jupyter.variables.describe import column_labels, column_types, describe_value, value_line


class Describing(NamedTuple):
    """A way of describing variables."""

    line: Callable[[object], str]  # value in one line
    text: Callable[[object], str]  # full description
    labels: Callable[[object], Sequence[str]]  # labels of a frame's first columns
    types: Callable[[object, Sequence[str]], Mapping[str, str]]  # types of some columns
    schema_only: bool = False


def _whole_text(value: object) -> str:
    described = describe_value(value)
    return f"{described.headline}\n{described.body}" if described.body else described.headline


WITH_VALUES: Final = Describing(value_line, _whole_text, column_labels, column_types)


def by_schema() -> Describing:
    """Return the way that reveals only names, types and counts, never values."""
    from vibe_jupyter.variables import schema_text as schema  # noqa: PLC0415 - in a privacy mode that few choose

    return Describing(
        schema.schema_line, schema.schema_text, schema.schema_labels, schema.schema_types, schema_only=True
    )
