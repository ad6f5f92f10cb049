"""Tensors of torch and arrays of jax, by the facts their own C code keeps; values may be on another device."""

from typing import Any

from vibe_jupyter.notebook.type_facts import is_of_package, type_name, type_of
from vibe_jupyter.notebook.variable_adapters.adapter import Adapter, line_adapter


def torch_adapter() -> Adapter:
    """For tensors of torch itself: a subclass may take over every attribute, so it is only named."""
    return line_adapter(_torch_line)


def jax_adapter() -> Adapter:
    """For arrays of jax."""
    return line_adapter(_jax_line)


def _torch_line(value: Any) -> str:
    if not is_of_package(type_of(value), "torch"):
        return f"{type_name(value)} (torch Tensor)"
    return f"torch {type(value).__name__} {_shape(value.shape)} {value.dtype} on {value.device}"


def _jax_line(value: Any) -> str:
    return f"jax array {_shape(value.shape)} {value.dtype}"


def _shape(shape: tuple[int, ...]) -> str:
    return " × ".join(f"{side:,}" for side in shape) or "scalar"
