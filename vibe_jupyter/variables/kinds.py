"""Registry of adapters by class. Adapter modules are imported when the first matching value is described."""

import functools
from importlib import import_module
from typing import Any, Final

from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.variables.adapters import VariableAdapter, loaded_attribute

# Adapter to the classes it describes, each as the module it is importable from and its name.
_ADAPTERS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "numpy_arrays.numpy_adapter": (("numpy", "ndarray"),),
    "numpy_arrays.numpy_scalar_adapter": (("numpy", "generic"),),
    "pandas_frames.pandas_frame_adapter": (("pandas", "DataFrame"),),
    "pandas_frames.pandas_series_adapter": (("pandas", "Series"),),
    "pandas_frames.pandas_index_adapter": (("pandas", "Index"),),
    "polars_frames.polars_frame_adapter": (("polars", "DataFrame"),),
    "polars_frames.polars_series_adapter": (("polars", "Series"),),
    # tables
    "tables.polars_plan_adapter": (("polars", "LazyFrame"),),
    "tables.arrow_adapter": (("pyarrow", "Table"), ("pyarrow", "RecordBatch")),
    "tables.arrow_array_adapter": (("pyarrow", "Array"), ("pyarrow", "ChunkedArray")),
    "tables.dask_frame_adapter": (("dask.dataframe", "DataFrame"), ("dask_expr", "DataFrame")),
    "tables.spark_frame_adapter": (
        ("pyspark.sql.dataframe", "DataFrame"),
        ("pyspark.sql.classic.dataframe", "DataFrame"),
    ),
    "tables.spark_connect_adapter": (("pyspark.sql.connect.dataframe", "DataFrame"),),
    "spark_objects.group_adapter": (("pyspark.sql.group", "GroupedData"),),
    "spark_objects.pandas_frame_adapter": (("pyspark.pandas.frame", "DataFrame"),),
    "spark_objects.schema_type_adapter": (("pyspark.sql.types", "StructType"),),
    "spark_objects.session_adapter": (("pyspark.sql.session", "SparkSession"),),
    "tables.modin_frame_adapter": (("modin.pandas", "DataFrame"),),
    "tables.cudf_frame_adapter": (("cudf", "DataFrame"),),
    "tables.sqlframe_adapter": (("sqlframe.base.dataframe", "BaseDataFrame"),),
    "tables.ray_dataset_adapter": (("ray.data", "Dataset"),),
    "tables.ibis_table_adapter": (("ibis.expr.types.relations", "Table"),),
    "tables.ibis_value_adapter": (("ibis.expr.types.generic", "Value"),),
    "tables.ibis_backend_adapter": (("ibis.backends", "BaseBackend"),),
    "tables.duckdb_relation_adapter": (("duckdb", "DuckDBPyRelation"),),
    "tables.duckdb_connection_adapter": (("duckdb", "DuckDBPyConnection"),),
    "tables.engine_adapter": (("sqlalchemy.engine.base", "Engine"),),
    "tables.async_engine_adapter": (("sqlalchemy.ext.asyncio", "AsyncEngine"),),
    "tables.connection_adapter": (("sqlalchemy.engine.base", "Connection"),),
    "tables.sql_table_adapter": (("sqlalchemy", "Table"),),
    "tables.sql_metadata_adapter": (("sqlalchemy", "MetaData"),),
    # arrays
    "arrays.torch_adapter": (("torch", "Tensor"),),
    "arrays.jax_adapter": (("jaxlib._jax", "ArrayImpl"), ("jaxlib.xla_extension", "ArrayImpl")),
    "arrays.dataset_adapter": (("xarray", "Dataset"),),
    "arrays.data_array_adapter": (("xarray", "DataArray"),),
    "arrays.data_tree_adapter": (("xarray", "DataTree"),),
    "arrays.xarray_group_adapter": (("xarray.core.groupby", "GroupBy"),),
    "arrays.xarray_window_adapter": (
        ("xarray.computation.rolling", "Rolling"),
        ("xarray.core.rolling", "Rolling"),
        ("xarray.computation.rolling", "Coarsen"),
        ("xarray.core.rolling", "Coarsen"),
    ),
    "arrays.zarr_array_adapter": (("zarr", "Array"),),
    "arrays.zarr_group_adapter": (("zarr", "Group"),),
    "arrays.sparse_adapter": (
        ("scipy.sparse", "spmatrix"),
        ("scipy.sparse", "sparray"),
        ("scipy.sparse", "dok_array"),  # is a dictionary before it is an array
        ("scipy.sparse", "dok_matrix"),
    ),
    "arrays.dask_array_adapter": (("dask.array", "Array"),),
    "arrays.dask_bag_adapter": (("dask.bag", "Bag"),),
    "arrays.delayed_adapter": (("dask.delayed", "Delayed"),),
    "arrays.spark_collection_adapter": (("pyspark", "RDD"),),
    "arrays.ray_reference_adapter": (("ray", "ObjectRef"),),
    "arrays.annotated_data_adapter": (("anndata", "AnnData"),),
    # models
    "models.estimator_adapter": (("sklearn.base", "BaseEstimator"),),
    "models.booster_adapter": (("lightgbm", "Booster"), ("xgboost", "Booster")),
    "models.training_data_adapter": (("lightgbm", "Dataset"),),
    "models.statistical_model_adapter": (("statsmodels.base.model", "Model"),),
    "models.results_adapter": (
        ("statsmodels.base.wrapper", "ResultsWrapper"),
        ("statsmodels.base.model", "Results"),
    ),
    "models.network_adapter": (("torch.nn", "Module"),),
    "models.optimizer_adapter": (("torch.optim", "Optimizer"),),
    "models.loader_adapter": (("torch.utils.data", "DataLoader"),),
    "models.keras_adapter": (("keras", "Model"),),
    # structures
    "structures.group_adapter": (
        ("pandas.core.groupby.generic", "DataFrameGroupBy"),
        ("pandas.core.groupby.generic", "SeriesGroupBy"),
        ("pandas.core.resample", "Resampler"),
    ),
    "structures.window_adapter": (("pandas.core.window.rolling", "BaseWindow"),),
    "structures.styler_adapter": (("pandas.io.formats.style", "Styler"),),
    "structures.polars_group_adapter": (("polars.dataframe.group_by", "GroupBy"),),
    "structures.geo_frame_adapter": (("geopandas", "GeoDataFrame"),),
    "structures.geo_series_adapter": (("geopandas", "GeoSeries"),),
    "structures.shape_adapter": (("shapely.geometry.base", "BaseGeometry"),),
    "structures.graph_adapter": (("networkx", "Graph"),),
    "structures.image_adapter": (("PIL.Image", "Image"),),
    "structures.response_adapter": (("requests", "Response"), ("httpx", "Response")),
    # charts
    "matplotlib_figures.matplotlib_adapter": (("matplotlib.figure", "FigureBase"), ("matplotlib.axes", "Axes")),
    "matplotlib_figures.seaborn_adapter": (("seaborn.axisgrid", "Grid"),),
    "chart_objects.plotly_adapter": (("plotly.basedatatypes", "BaseFigure"),),
    "chart_objects.altair_adapter": (("altair.vegalite", "TopLevelMixin"), ("altair", "TopLevelMixin")),
    "chart_objects.bokeh_adapter": (("bokeh.models", "Plot"), ("bokeh.models", "LayoutDOM")),
    "chart_objects.holoviews_adapter": (
        ("holoviews.core.dimension", "ViewableElement"),
        ("holoviews", "Layout"),
        ("holoviews", "NdLayout"),
        ("holoviews", "GridSpace"),
        ("holoviews", "HoloMap"),
    ),
}


def _by_name() -> dict[str, list[tuple[str, str]]]:
    places: dict[str, list[tuple[str, str]]] = {}
    for adapter, classes in _ADAPTERS.items():
        for module, name in classes:
            places.setdefault(name, []).append((module, adapter))
    return places


_BY_NAME: Final = _by_name()
_NAME: Final[Any] = type.__dict__["__name__"]


def library_adapter(cls: type) -> VariableAdapter | None:
    """Return a library class's adapter without importing the library. Classes that merely share the name get none."""
    name: str = _NAME.__get__(cls)
    for module, adapter in _BY_NAME.get(name, ()):
        if loaded_attribute(module, name) is cls:
            return _load_adapter(adapter)
    return None


@functools.cache
def _load_adapter(place: str) -> VariableAdapter:
    module, _, maker = place.partition(".")
    with without_working_folder():
        return getattr(import_module(f"vibe_jupyter.variables.adapters.{module}"), maker)()
