"""The shape of a frame: rows, columns and their types."""

from vibe_jupyter.protocol.variable_effects import FrameShape
from vibe_jupyter.variables.adapters import VariableView
from vibe_jupyter.variables.adapters.frames import extent_text
from vibe_jupyter.variables.describe import column_labels, describe_value

_EXTENT_ALONE = VariableView(rows=0, stats=False)


def frame_shape(value: object) -> FrameShape | None:
    """Return a frame's shape without reading any value. None for other values, and for frames of unknown length."""
    if not column_labels(value):
        return None
    described = describe_value(value, _EXTENT_ALONE)
    if described.extent is None or described.table is None:
        return None
    rows, width = described.extent
    types = {row[0]: row[1] for row in described.table.rows}
    return FrameShape(described.headline.removesuffix(extent_text(rows, width)).rstrip(), rows, width, types)
