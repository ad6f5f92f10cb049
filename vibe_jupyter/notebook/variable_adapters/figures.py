"""Figures of matplotlib: their size and how many axes they have. Nothing is drawn."""

from typing import Any

from vibe_jupyter.notebook.type_facts import is_of_package, type_name, type_of
from vibe_jupyter.notebook.variable_adapters.adapter import Adapter, line_adapter


def figure_adapter() -> Adapter:
    """For `matplotlib.figure.Figure`; of subclasses only the name is told."""
    return line_adapter(_figure_line)


def _figure_line(value: Any) -> str:
    if not is_of_package(type_of(value), "matplotlib"):
        return f"{type_name(value)} (matplotlib Figure)"
    width, height = value.get_size_inches()
    axes = len(value.axes)
    return f"matplotlib Figure {width:g} × {height:g} inches, {axes} {'axis' if axes == 1 else 'axes'}"
