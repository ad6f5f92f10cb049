"""Models: parameters, whether they are fitted and on what. Only stored attributes are read.

Most models are instances of user-defined or derived classes, so no attribute is looked up on the object itself.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from types import FunctionType
from typing import Any, Final, cast

from vibe_jupyter.charts.columns import list_of, mapping_of
from vibe_jupyter.variables.adapters import (
    VariableAdapter,
    class_dict,
    class_mro,
    instance_dict,
    is_of_package,
    is_one_of,
    loaded_attribute,
    type_name,
    type_of,
)
from vibe_jupyter.variables.adapters.facts import extent_of, facts_adapter, named_line, names_text, pairs_text, plural
from vibe_jupyter.variables.plain_values import comparison_mark, is_scalar, plain_cell_text, plain_line

_STEPS: Final = 20  # steps of a pipeline, or layers of a network
_MODULES: Final = 2_000  # modules of a network that are visited
# Results of the fit that estimators store.
_SCORES: Final = ("best_score_", "oob_score_", "train_score_", "validation_score_", "alpha_", "n_iter_", "inertia_")
_WRAPPED: Final = ("estimator", "base_estimator", "regressor", "classifier")  # parameters that hold another estimator


def estimator_adapter() -> VariableAdapter:
    """Return an adapter for scikit-learn compatible estimators, including pipelines and searches."""
    return facts_adapter("estimator", _estimator_headline, _estimator_lines)


def _estimator_headline(value: Any) -> str:
    package, _, name = type_name(value).partition(".")
    state = "fitted" if _is_fitted(value) else "not fitted"
    steps = [name for name, _ in steps_of(value)]
    shape = f" of {plural(len(steps), 'step')} ({names_text(steps)})" if steps else ""
    return f"{name.rpartition('.')[2] or package}{f' ({package})' if name else ''}{shape}, {state}"


def _is_fitted(value: Any) -> bool:
    stored = instance_dict(value)
    if steps := steps_of(value):
        return any(_is_fitted(step) for _, step in steps[-1:])
    return any(type(name) is str and name.endswith("_") and not name.startswith("_") for name in stored)


def steps_of(value: Any) -> list[tuple[str, object]]:
    """Return the named steps of a pipeline or union, in order."""
    stored = instance_dict(value)
    for name in ("steps", "transformers_", "transformers", "transformer_list", "estimators"):
        parts = stored.get(name)
        if type(parts) is list:
            pairs = islice(cast("list[object]", parts), _STEPS)
            known = [cast("tuple[Any, ...]", pair) for pair in pairs if type(pair) is tuple]
            return [(plain_cell_text(pair[0]), pair[1]) for pair in known if len(pair) > 1]
    return []


def _estimator_lines(value: Any) -> Iterator[str]:
    stored = instance_dict(value)
    yield _parameter_line(value)
    for name, step in steps_of(value):
        yield f"step {name}: {estimator_text(step)}"
    for name in _WRAPPED:
        if name in stored and stored[name] is not None:
            yield f"{name}: {estimator_text(stored[name])}"
    yield from _fit_lines(stored)


def estimator_text(value: Any) -> str:
    """Describe a nested estimator by its class and non-default parameters."""
    if type(value) is str:
        return plain_cell_text(value)
    changed = _changed_parameters(value)
    name = type_name(value).rpartition(".")[2]
    return f"{name}({', '.join(f'{key}={text}' for key, text in changed)})"


def _parameter_line(value: Any) -> str:
    changed = _changed_parameters(value)
    text = ", ".join(f"{name}={shown}" for name, shown in changed)
    return f"parameters: {text or 'all at their defaults'}"


def _changed_parameters(value: Any) -> list[tuple[str, str]]:
    stored = instance_dict(value)
    return [
        (name, _parameter_text(stored[name]))
        for name, default in _declared_parameters(type_of(value)).items()
        if name in stored and not _is_default(stored[name], default) and name not in ("steps", "transformers")
    ]


def _parameter_text(value: object) -> str:
    in_sklearn = loaded_attribute("sklearn.base", "BaseEstimator") in class_mro(type_of(value))
    return type_name(value).rpartition(".")[2] if in_sklearn else plain_line(value, depth=1, width=40)


def _is_default(value: object, default: object) -> bool:
    if value is default:
        return True
    return is_scalar(value) and type(value) is type(default) and comparison_mark(value) == comparison_mark(default)


def _declared_parameters(cls: type) -> dict[str, object]:
    """Return the constructor's parameters and defaults, read from its code object."""
    for one in class_mro(cls):
        init = class_dict(one).get("__init__")
        if type(init) is FunctionType:
            code = init.__code__
            names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
            positional = code.co_varnames[: code.co_argcount]
            defaults = init.__defaults__ or ()
            known = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
            return {name: {**known, **(init.__kwdefaults__ or {})}.get(name, ...) for name in names}
    return {}


def _fit_lines(stored: Mapping[str, object]) -> Iterator[str]:
    # LightGBM's estimators use names of their own.
    if type(count := stored.get("n_features_in_", stored.get("_n_features"))) is int:
        names = _array_items(stored.get("feature_names_in_"))
        yield f"{plural(count, 'feature')}: {names_text(names)}" if names else plural(count, "feature")
    if classes := _array_items(stored.get("classes_", stored.get("_classes"))):
        yield f"classes: {', '.join(plain_line(one) for one in classes[:20])}"
    if type(best := stored.get("best_params_")) is dict:
        yield f"best_params_: {plain_line(cast('object', best))}"
    scores = [f"{name} {plain_line(stored[name])}" for name in _SCORES if name in stored and is_scalar(stored[name])]
    scores += [f"{name} {plain_line(stored[name])}" for name in _SCORES if _is_number(stored.get(name))]
    yield ", ".join(scores)
    fitted = [name for name in stored if type(name) is str and name.endswith("_") and not name.startswith("_")]
    yield named_line("fitted attributes", [f"{name}{_shape_text(stored[name])}" for name in fitted])


def _is_number(value: object) -> bool:
    return loaded_attribute("numpy", "floating") in class_mro(type_of(value)) and is_of_package(type_of(value), "numpy")


def _array_items(value: Any) -> list[object]:
    if type_of(value) is loaded_attribute("numpy", "ndarray") and value.ndim == 1:
        return value[:50].tolist()
    return cast("list[object]", value)[:50] if type(value) is list else []


def _shape_text(value: Any) -> str:
    return f" {extent_of(value.shape)}" if type_of(value) is loaded_attribute("numpy", "ndarray") else ""


def training_data_adapter() -> VariableAdapter:
    """Return an adapter for LightGBM's `Dataset`, which reads its source only when a model is trained."""
    return facts_adapter("LightGBM Dataset", _training_data_text)


def _training_data_text(value: Any) -> str:
    stored = instance_dict(value)
    data: Any = stored.get("data")
    memory: Any = instance_dict(data).get("_mgr")
    shape: tuple[object, ...] = ()
    if is_of_package(type_of(memory), "pandas"):
        shape = memory.shape[::-1]
    elif type_of(data) is loaded_attribute("numpy", "ndarray"):
        shape = data.shape
    source = f"of {type_name(data)}{f' {extent_of(shape)}' if shape else ''}" if data is not None else "of data let go"
    return f"{source}, {'with' if stored.get('label') is not None else 'without'} labels"


def booster_adapter() -> VariableAdapter:
    """Return an adapter for LightGBM and XGBoost boosters."""
    return facts_adapter("booster", _booster_headline, _booster_lines, packages=("lightgbm", "xgboost", "catboost"))


def _booster_headline(value: Any) -> str:
    trees = _asked(value, "num_trees") or _asked(value, "num_boosted_rounds")
    features = _asked(value, "num_feature") or _asked(value, "num_features")
    facts = [plural(trees, "tree")] if trees is not None else []
    facts += [plural(features, "feature")] if features is not None else []
    return f"of {type_name(value).partition('.')[0]}, {', '.join(facts) or 'not trained'}"


def _asked(value: Any, name: str) -> int | None:
    """Call a method that reads a number from the C library."""
    method: Any = next((class_dict(cls)[name] for cls in class_mro(type_of(value)) if name in class_dict(cls)), None)
    if method is None or name in instance_dict(value):
        return None
    found = method(value)
    return found if type(found) is int else None


def _booster_lines(value: Any) -> Iterator[str]:
    stored = instance_dict(value)
    for name in ("params", "best_iteration", "best_score"):
        if name in stored:
            yield f"{name}: {plain_line(stored[name], depth=2)}"
    yield named_line("features", _booster_features(value))


def _booster_features(value: Any) -> list[object]:
    """Return feature names, which LightGBM offers as a method and XGBoost as a property."""
    for name in ("feature_name", "feature_names"):
        reader: Any = class_dict(type_of(value)).get(name)
        if reader is not None and name not in instance_dict(value):
            read: Any = reader.fget if type(reader) is property else reader
            return list_of(read(value))
    return []


def statistical_model_adapter() -> VariableAdapter:
    """Return an adapter for unfitted statsmodels models; `fit` returns a separate results object."""
    return facts_adapter("statsmodels", _statistical_model_text, _statistical_model_lines)


def _statistical_model_text(value: Any) -> str:
    rows = _rows_of({}, instance_dict(value))
    name = type_name(value).rpartition(".")[2]
    extent = f" of {plural(rows, 'observation')}" if rows else ""
    return f"{name}{extent}; its fit is another object"


def _statistical_model_lines(value: Any) -> Iterator[str]:
    stored = instance_dict(value)
    if type(formula := stored.get("formula")) is str:
        yield f"formula: {formula}"
    yield named_line("variables", _results_names(stored))


def results_adapter() -> VariableAdapter:
    """Return an adapter for statsmodels results, including the wrapper that adds labels."""
    return facts_adapter("statsmodels", _results_headline, _results_lines)


def _results_parts(value: Any) -> tuple[Mapping[str, object], Mapping[str, object]]:
    inner = instance_dict(value).get("_results", value)
    stored = instance_dict(inner)
    return stored, instance_dict(stored.get("model"))


def _results_headline(value: Any) -> str:
    inner = instance_dict(value).get("_results", value)
    stored, model = _results_parts(value)
    rows = _rows_of(stored, model)
    of_model = type_name(stored.get("model")).rpartition(".")[2]
    return f"{type_name(inner).rpartition('.')[2]} of {of_model}" + (f", {rows:,} observations" if rows else "")


def _rows_of(stored: Mapping[str, object], model: Mapping[str, object]) -> int | None:
    endog = model.get("endog")
    if type_of(endog) is loaded_attribute("numpy", "ndarray"):
        return len(cast("Any", endog))
    found = stored.get("nobs")
    return int(found) if type(found) is float or type(found) is int else None


def _results_lines(value: Any) -> Iterator[str]:
    stored, model = _results_parts(value)
    if type(formula := model.get("formula")) is str:
        yield f"formula: {formula}"
    names: list[Any] = _results_names(model) or list_of(stored.get("param_names"))
    params = _array_items(stored.get("params"))
    if params and len(names) == len(params):
        yield "coefficients: " + ", ".join(
            f"{plain_cell_text(name)} {_figure(one)}" for name, one in zip(names, params, strict=True)
        )
    elif params:
        yield "coefficients: " + ", ".join(map(_figure, params[:20]))
    for name in ("df_model", "df_resid", "cov_type", "method", "converged"):
        if is_scalar(stored.get(name)) and stored.get(name) is not None:
            yield f"{name}: {plain_line(stored[name])}"
    cached = stored.get("_cache")
    known = cast("dict[object, object]", cached) if type(cached) is dict else {}
    figures = [(name, one) for name, one in known.items() if type(one) is float or _is_number(one)]
    yield ", ".join(f"{plain_cell_text(name)} {_figure(one)}" for name, one in figures[:10])


def _results_names(model: Mapping[str, object]) -> list[str]:
    """Return column labels of the frame that the model was given."""
    data = instance_dict(model.get("data"))
    exog: Any = data.get("orig_exog")
    memory: Any = instance_dict(exog).get("_mgr")
    if not is_of_package(type_of(memory), "pandas"):
        return []
    return [plain_cell_text(label) for label in memory.axes[0].tolist()]


def _figure(value: object) -> str:
    return f"{value:.4g}" if type(value) is float else plain_line(value)


def network_adapter() -> VariableAdapter:
    """Return an adapter for torch modules: layers, parameters and device."""
    return facts_adapter("torch", _network_headline, _network_lines)


def _network_headline(value: Any) -> str:
    total, trained, places = 0, 0, set[str]()
    for parameter in _parameters(value):
        size = parameter.numel()
        total += size
        trained += size if parameter.requires_grad else 0
        places.add(f"{parameter.dtype} on {parameter.device}".removeprefix("torch."))
    frozen = f", {total - trained:,} frozen" if trained != total else ""
    mode = "training" if instance_dict(value).get("training") is True else "evaluation"
    return (
        f"{type_name(value).rpartition('.')[2]}, {plural(total, 'parameter')}{frozen}"
        f"{', ' if places else ''}{', '.join(sorted(places)[:4])}, in {mode} mode"
    )


def _children(value: Any, name: str) -> Mapping[str, object]:
    found = instance_dict(value).get(name)
    return cast("Mapping[str, object]", found) if type_of(found).__name__ in ("dict", "OrderedDict") else {}


def _modules(value: Any) -> Iterator[Any]:
    waiting, seen = [value], set[int]()
    while waiting and len(seen) < _MODULES:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [child for child in _children(one, "_modules").values() if child is not None]


def _parameters(value: Any) -> Iterator[Any]:
    """Yield each parameter that is one of torch's own tensor classes, once."""
    own = (loaded_attribute("torch.nn.parameter", "Parameter"), loaded_attribute("torch", "Tensor"))
    seen = set[int]()
    for module in _modules(value):
        for parameter in _children(module, "_parameters").values():
            if is_one_of(type_of(parameter), own) and id(parameter) not in seen:
                seen.add(id(parameter))
                yield parameter


def _network_lines(value: Any) -> Iterator[str]:
    children = _children(value, "_modules")
    for name, child in islice(children.items(), _STEPS):
        yield f"{plain_cell_text(name)}: {_layer_text(child)}"
    if len(children) > _STEPS:
        yield f"… {len(children) - _STEPS:,} more layers"
    for name, parameter in islice(_children(value, "_parameters").items(), _STEPS):
        if is_of_package(type_of(parameter), "torch"):
            yield f"{plain_cell_text(name)}: {extent_of(cast('Any', parameter).shape)}"


def _layer_text(value: Any) -> str:
    sizes = ("in_features", "out_features", "in_channels", "out_channels", "kernel_size", "num_embeddings", "p")
    stored = instance_dict(value)
    facts = [f"{name}={plain_line(stored[name], depth=1)}" for name in sizes if name in stored]
    inner = len(_children(value, "_modules"))
    facts += [plural(inner, "module")] if inner else []
    own = sum(one.numel() for one in _parameters(value))
    facts += [plural(own, "parameter")] if own else []
    return f"{type_name(value).rpartition('.')[2]}({', '.join(facts)})"


def optimizer_adapter() -> VariableAdapter:
    """Return an adapter for torch optimizers."""
    return facts_adapter("torch", _optimizer_headline, _optimizer_lines)


def _optimizer_headline(value: Any) -> str:
    groups = [mapping_of(group) for group in list_of(instance_dict(value).get("param_groups"))]
    tensors = sum(len(list_of(group.get("params"))) for group in groups)
    return f"{type_name(value).rpartition('.')[2]} of {plural(tensors, 'tensor')} in {plural(len(groups), 'group')}"


def _optimizer_lines(value: Any) -> Iterator[str]:
    for group in list_of(instance_dict(value).get("param_groups"))[:_STEPS]:
        yield pairs_text((name, one) for name, one in mapping_of(group).items() if name != "params" and one is not None)


def loader_adapter() -> VariableAdapter:
    """Return an adapter for torch data loaders. No item is loaded, and the data set's `__len__` isn't called."""
    return facts_adapter("torch", _loader_text)


def _loader_text(value: Any) -> str:
    stored = instance_dict(value)
    options = [(name, stored[name]) for name in ("batch_size", "num_workers", "drop_last") if name in stored]
    return f"DataLoader of {type_name(stored.get('dataset'))}, {pairs_text(options)}"


def keras_adapter() -> VariableAdapter:
    """Return an adapter for Keras models, which lists their layers."""
    return facts_adapter("Keras", lambda value: type_name(value).rpartition(".")[2], _keras_lines)


def _keras_lines(value: Any) -> Iterator[str]:
    layers = instance_dict(value).get("_layers")
    if type(layers) is list:
        names = [f"{type_name(one).rpartition('.')[2]}" for one in cast("list[object]", layers)]
        yield named_line("layers", names)
