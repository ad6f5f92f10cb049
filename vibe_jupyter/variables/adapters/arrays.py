"""Arrays of libraries other than NumPy: shape, dtype, names and units. Nothing is computed or read from a store."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, cast

from vibe_jupyter.variables.adapters import (
    LABELS_COMPARED,
    VariableAdapter,
    instance_dict,
    is_of_package,
    is_one_of,
    loaded_attribute,
    pairs_of,
    type_name,
    type_of,
)
from vibe_jupyter.variables.adapters.facts import (
    NAMES_SHOWN,
    extent_of,
    facts_adapter,
    named_line,
    names_text,
    pairs_text,
    plural,
)
from vibe_jupyter.variables.adapters.numpy_arrays import array_figures, dtype_text, has_figures
from vibe_jupyter.variables.adapters.pandas_frames import pandas_columns
from vibe_jupyter.variables.plain_values import plain_cell_text, plain_line

_NOT_COMPUTED: Final = "Nothing was computed."
_READ_WHOLE: Final = 10_000  # elements; ranges of larger arrays aren't computed
# Tensor dtypes that NumPy has too.
_NUMPY_TYPES: Final = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")
_VARIABLES: Final = 20  # variables shown per data set


def torch_adapter() -> VariableAdapter:
    """Return an adapter for torch tensors. Subclasses may override every attribute, so only their name is shown."""
    return facts_adapter("torch", _tensor_text, _tensor_lines, packages=("torch",))


def jax_adapter() -> VariableAdapter:
    return facts_adapter("jax array", lambda value: f"{extent_of(value.shape)} {value.dtype}")


def _tensor_text(value: Any) -> str:
    gradient = ", requires gradient" if value.requires_grad else ""
    return f"{type_of(value).__name__} {extent_of(value.shape)} {value.dtype} on {value.device}{gradient}"


def _tensor_lines(value: Any) -> Iterator[str]:
    """Yield the range of values, if they are in CPU memory (not on a GPU or the meta device)."""
    known = is_one_of(type_of(value), (loaded_attribute("torch", "Tensor"), loaded_attribute("torch.nn", "Parameter")))
    if not known or value.device.type != "cpu" or str(value.layout) != "torch.strided":
        return
    if str(value.dtype).removeprefix("torch.") in _NUMPY_TYPES and 0 < value.numel() <= _READ_WHOLE:
        nulls, span, detail = array_figures(value.detach().numpy().reshape(-1))
        yield f"values: {', '.join(filter(None, (span, detail, f'{nulls} nan' if nulls else '')))}"


def dataset_adapter() -> VariableAdapter:
    """Return an adapter for `xarray.Dataset`."""
    adapter = facts_adapter("xarray Dataset", _dataset_text, _dataset_lines, packages=("xarray",))
    return adapter._replace(labels=_dataset_labels)


def data_array_adapter() -> VariableAdapter:
    """Return an adapter for `xarray.DataArray`."""
    return facts_adapter("xarray DataArray", _data_array_text, _data_array_lines, packages=("xarray",))


def data_tree_adapter() -> VariableAdapter:
    """Return an adapter for `xarray.DataTree`, which lists its groups."""
    return facts_adapter(
        "xarray DataTree",
        lambda value: plural(len(value.children), "group"),
        lambda value: [named_line("groups", value.children), named_line("variables", value._data_variables)],
        packages=("xarray",),
    )


def xarray_group_adapter() -> VariableAdapter:
    """Return an adapter for xarray's `groupby` and `resample` objects. The groups aren't computed."""
    return facts_adapter("xarray", _xarray_group_text, lambda value: [_NOT_COMPUTED], packages=("xarray",))


def xarray_window_adapter() -> VariableAdapter:
    """Return an adapter for xarray's rolling and coarsened windows."""
    return facts_adapter("xarray", _xarray_window_text, lambda value: [_NOT_COMPUTED], packages=("xarray",))


def _xarray_group_text(value: Any) -> str:
    names = names_text(grouper.name for grouper in value.groupers)
    return f"{type_of(value).__name__} by {names} of {_xarray_source(value._original_obj)}"


def _xarray_window_text(value: Any) -> str:
    # Rolling stores two lists, Coarsen a mapping.
    sizes = value.windows if hasattr(value, "windows") else dict(zip(value.dim, value.window, strict=True))
    return f"{type_of(value).__name__}({pairs_text(sizes.items())}) of {_xarray_source(value.obj)}"


def _xarray_source(value: Any) -> str:
    adapter = {"Dataset": dataset_adapter, "DataArray": data_array_adapter}.get(type_of(value).__name__)
    return adapter().line(value) if adapter is not None else type_name(value)


def _dataset_text(value: Any) -> str:
    data = [name for name in value._variables if name not in value._coord_names]
    return f"{_dims_text(value._dims)} ({names_text(data)})"


def _dataset_labels(value: Any) -> list[str]:
    if not is_of_package(type_of(value), "xarray"):
        return []
    return [plain_cell_text(name) for name in islice(value._variables, LABELS_COMPARED)]


def _dims_text(sizes: Mapping[object, object]) -> str:
    return ", ".join(f"{plain_cell_text(name)} {size}" for name, size in islice(sizes.items(), NAMES_SHOWN))


def _dataset_lines(value: Any) -> Iterator[str]:
    variables: list[tuple[object, Any]] = list(value._variables.items())
    places = [(name, variable) for name, variable in variables if name in value._coord_names]
    for name, variable in places[:_VARIABLES]:
        yield f"coordinate {_variable_text(name, variable)}{_coordinate_range(variable)}"
    for name, variable in [pair for pair in variables if pair[0] not in value._coord_names][:_VARIABLES]:
        yield f"variable {_variable_text(name, variable)}"
    yield _attributes_line(value._attrs)


def _data_array_text(value: Any) -> str:
    variable = value._variable
    name = f"{plain_cell_text(value._name)} " if value._name is not None else ""
    sizes = dict(zip(variable._dims, variable.shape, strict=True))
    return f"{name}{_dims_text(sizes)} {_stored_type(variable)}{_unit_text(variable)}"


def _data_array_lines(value: Any) -> Iterator[str]:
    for name, variable in islice(value._coords.items(), _VARIABLES):
        yield f"coordinate {_variable_text(name, variable)}{_coordinate_range(variable)}"
    data = value._variable._data
    if type(data) is loaded_attribute("numpy", "ndarray") and data.size <= _READ_WHOLE and has_figures(data.dtype):
        nulls, span, detail = array_figures(data.reshape(-1))
        yield f"values: {', '.join(filter(None, (span, detail, f'{nulls} nan' if nulls else '')))}"
    yield _attributes_line(value._variable._attrs)


def _variable_text(name: object, variable: Any) -> str:
    dims = ", ".join(map(plain_cell_text, variable._dims))
    return f"{plain_cell_text(name)} ({dims}) {_stored_type(variable)}{_unit_text(variable)}"


def _stored_type(variable: Any) -> str:
    """Return the dtype, or only the class name for arrays other than NumPy's, xarray's or Dask's."""
    data = variable._data
    cls = type_of(data)
    if not any(is_of_package(cls, package) for package in ("numpy", "xarray", "dask")):
        return f"<{type_name(data)}>"
    return dtype_text(data.dtype) + (", not computed" if is_of_package(cls, "dask") else "")


def _unit_text(variable: Any) -> str:
    attrs: Mapping[object, object] = variable._attrs or {}
    known = [plain_cell_text(attrs[key]) for key in ("long_name", "units") if key in attrs]
    return f", {' in '.join(known)}" if known else ""


def _coordinate_range(variable: Any) -> str:
    """Return the first and last value of a coordinate in memory."""
    data = variable._data
    if type_of(data).__name__ == "PandasIndexingAdapter" and is_of_package(type_of(data), "xarray"):
        index = data.array
        if not is_of_package(type_of(index), "pandas") or not len(index) > 0:
            return ""
        return f", {plain_line(index[0], width=24)} … {plain_line(index[-1], width=24)}"
    return ""


def _attributes_line(attrs: Mapping[object, object] | None) -> str:
    text = pairs_text((attrs or {}).items())
    return f"attributes: {text}" if text else ""


def zarr_array_adapter() -> VariableAdapter:
    """Return an adapter for zarr arrays, limited to metadata read when they were opened."""
    return facts_adapter("zarr Array", _zarr_text, _zarr_lines, packages=("zarr",))


def zarr_group_adapter() -> VariableAdapter:
    """Return an adapter for zarr groups. Member names aren't listed, because the store may be remote."""
    return facts_adapter("zarr Group", _zarr_name, _zarr_group_lines, packages=("zarr",))


def _zarr_text(value: Any) -> str:
    return f"{_zarr_name(value)}{extent_of(value.shape)} {value.dtype}, chunks {extent_of(value.chunks)}"


def _zarr_name(value: Any) -> str:
    return f"{plain_cell_text(value.path)} " if value.path else ""


def _zarr_lines(value: Any) -> Iterator[str]:
    yield _attributes_line(value.metadata.attributes)
    yield "No chunk was read."


def _zarr_group_lines(value: Any) -> Iterator[str]:
    yield _attributes_line(value.metadata.attributes)
    known = getattr(value.metadata, "consolidated_metadata", None)
    if known is not None:
        yield named_line("members", known.metadata)
    else:
        yield "The store was not read. run_code can ask for list(group.members())."


def sparse_adapter() -> VariableAdapter:
    """Return an adapter for SciPy's sparse matrices and arrays."""
    return facts_adapter("scipy sparse", _sparse_text, _sparse_lines, packages=("scipy",))


def _sparse_text(value: Any) -> str:
    return f"{type_of(value).__name__} {extent_of(value._shape)} {_sparse_type(value)}{_stored_text(value)}"


def _sparse_type(value: Any) -> str:
    data = instance_dict(value).get("data")
    return dtype_text(cast("Any", data).dtype) if _is_array(data) else ""


def _stored_text(value: Any) -> str:
    data = instance_dict(value).get("data")
    if not _is_array(data) or type_of(value).__name__.startswith(("lil", "dia", "bsr")):
        return ""
    stored, places = len(cast("Any", data)), 1
    for side in value._shape:
        places *= side
    return f", {stored:,} stored ({100 * stored / places:.3g} %)" if places else ""


def _sparse_lines(value: Any) -> Iterator[str]:
    data = cast("Any", instance_dict(value).get("data"))
    if _is_array(data) and has_figures(data.dtype) and 0 < data.size <= _READ_WHOLE:
        _, span, detail = array_figures(data.reshape(-1))
        yield f"stored values: {span}, {detail}"


def _is_array(value: object) -> bool:
    return type_of(value) is loaded_attribute("numpy", "ndarray")


def dask_array_adapter() -> VariableAdapter:
    return facts_adapter("Dask Array", _dask_array_text, lambda value: [_NOT_COMPUTED], packages=("dask",))


def _dask_array_text(value: Any) -> str:
    chunks = value.chunks
    count = 1
    for side in chunks:
        count *= len(side)
    first = extent_of(side[0] for side in chunks)
    return f"{extent_of(value.shape)} {dtype_text(value.dtype)}, {plural(count, 'chunk')} of {first}"


def dask_bag_adapter() -> VariableAdapter:
    return facts_adapter(
        "Dask Bag",
        lambda value: plural(value.npartitions, "partition"),
        lambda value: [_NOT_COMPUTED],
        packages=("dask",),
    )


def delayed_adapter() -> VariableAdapter:
    """Return an adapter for Dask's `Delayed`."""
    return facts_adapter(
        "Dask Delayed",
        lambda value: plain_cell_text(value._key),
        lambda value: [_NOT_COMPUTED],
        packages=("dask",),
    )


def spark_collection_adapter() -> VariableAdapter:
    """Return an adapter for Spark RDDs."""
    return facts_adapter("Spark RDD", lambda value: "", lambda value: [_NOT_COMPUTED])


def ray_reference_adapter() -> VariableAdapter:
    """Return an adapter for Ray's `ObjectRef`."""
    return facts_adapter("Ray ObjectRef", lambda value: "", lambda value: ["It was not fetched."])


def annotated_data_adapter() -> VariableAdapter:
    """Return an adapter for `anndata.AnnData`."""
    return facts_adapter("AnnData", _annotated_text, _annotated_lines)


def _annotated_text(value: Any) -> str:
    stored = instance_dict(value)
    rows, columns = (_frame_length(stored.get(name)) for name in ("_obs", "_var"))
    return f"{rows} observations × {columns} variables" + (", a view" if stored.get("_is_view") is True else "")


def _frame_length(frame: Any) -> str:
    memory = cast("Any", instance_dict(frame).get("_mgr"))
    return f"{memory.shape[-1]:,}" if is_of_package(type_of(memory), "pandas") else "?"


def _annotated_lines(value: Any) -> Iterator[str]:
    stored = instance_dict(value)
    for name in ("obs", "var"):
        frame = stored.get(f"_{name}")
        if "_mgr" in instance_dict(frame):
            yield named_line(name, [f"{label} {dtype}" for label, dtype in pandas_columns(frame)])
    for name in ("layers", "obsm", "varm", "obsp", "varp", "uns"):
        parts = stored.get(f"_{name}")
        if is_one_of(type_of(parts), (dict, OrderedDict)):
            known = cast("dict[object, Any]", parts)
            yield named_line(name, [f"{plain_cell_text(key)} {_matrix_text(one)}" for key, one in pairs_of(known)])
    if stored.get("_is_view") is True:
        yield f"X: a part of {_matrix_text(instance_dict(stored.get('_adata_ref')).get('_X'))}"
    else:
        yield f"X: {_matrix_text(stored.get('_X'))}"


def _matrix_text(value: Any) -> str:
    if _is_array(value):
        return f"numpy array {extent_of(value.shape)} {dtype_text(value.dtype)}"
    if is_of_package(type_of(value), "scipy"):
        return f"scipy sparse {_sparse_text(value)}"
    return type_name(value)
