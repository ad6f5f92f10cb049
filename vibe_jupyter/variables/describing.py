"""How variables are described to the model: with their values, or by names, types and counts alone."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from vibe_jupyter.variables.describe import column_labels, column_types, describe_value, value_line


class Describing(NamedTuple):
    """One of the two ways."""

    line: Callable[[object], str]
    """A value in one line."""
    text: Callable[[object], str]
    """All that is said of it."""
    labels: Callable[[object], Sequence[str]]
    """Of the first columns of a frame."""
    types: Callable[[object, Sequence[str]], Mapping[str, str]]
    """Of some columns."""
    schema_only: bool = False


def _whole_text(value: object) -> str:
    described = describe_value(value)
    return f"{described.headline}\n{described.body}" if described.body else described.headline


WITH_VALUES: Final = Describing(value_line, _whole_text, column_labels, column_types)


def by_schema() -> Describing:
    """By names, types and counts alone."""
    from vibe_jupyter.variables import schema_text as schema  # noqa: PLC0415 - in a privacy mode that few choose

    return Describing(
        schema.schema_line, schema.schema_text, schema.schema_labels, schema.schema_types, schema_only=True
    )
