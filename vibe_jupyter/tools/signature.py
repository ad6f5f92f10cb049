"""The arguments of a function as a pydantic model: from its annotations, its defaults and its docstring."""

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUserError

from vibe_jupyter.errors import ConfigError

_CONTEXT_NAMES: Final = frozenset({"ctx", "context"})


class Signature:
    """What a function wants to be called with."""

    def __init__(self, name: str, function: Callable[..., Any], words: Mapping[str, str]) -> None:
        self._name = name
        self._function = function
        self._words = words
        parameters = [one for one in inspect.signature(function).parameters.values() if one.name != "self"]
        self.context = next((one.name for one in parameters if _is_context(one)), None)
        """The parameter that wants to know of the call; None where there is none."""
        self._parameters = [one for one in parameters if one.name != self.context]
        self._hints = _hints(function)
        self.whole = self._whole()
        """The model of the one parameter that takes all arguments; None where each has its own."""

    def arguments(self) -> type[BaseModel]:
        """The model of the arguments.

        Raises:
            ConfigError: something of it cannot be given by a model; says what.
        """
        if self.whole is not None:
            return self.whole
        fields: dict[str, Any] = {}
        for parameter in self._parameters:
            fields[parameter.name] = self._field(parameter)
        try:
            return create_model(self._name, __config__=ConfigDict(extra="forbid"), **fields)
        except (PydanticUserError, NameError, TypeError) as error:
            reason = str(error).split("\n", 1)[0]
            raise ConfigError(
                f"The arguments of the tool {self._name} cannot be described to a model: {reason} "
                "Annotate them with text, numbers, true or false, lists and dicts of these, or pydantic models."
            ) from error

    def call(self, args: BaseModel, context: object) -> dict[str, Any]:
        """The keyword arguments for one call."""
        more = {} if self.context is None else {self.context: context}
        if self.whole is not None:
            return {self._parameters[0].name: args, **more}
        return {**{name: getattr(args, name) for name in type(args).model_fields}, **more}

    def _field(self, parameter: inspect.Parameter) -> tuple[Any, Any]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigError(
                f"The tool {self._name} has the parameter {parameter}, which cannot be given by name. "
                "A model gives each argument by its name."
            )
        default: Any = ... if parameter.default is parameter.empty else parameter.default
        words = self._words.get(parameter.name)
        annotation = self._hints.get(parameter.name, Any)
        if words is None or _has_words(annotation):
            return annotation, default
        return annotation, Field(default=default, description=words)

    def _whole(self) -> type[BaseModel] | None:
        if len(self._parameters) != 1 or self._parameters[0].default is not inspect.Parameter.empty:
            return None
        annotation: object = self._hints.get(self._parameters[0].name)
        return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _is_context(parameter: inspect.Parameter) -> bool:
    return parameter.name in _CONTEXT_NAMES or "InvokeContext" in str(parameter.annotation)


def _hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):  # a name that is not there yet: as it is written
        return {name: hint for name, hint in inspect.get_annotations(function).items() if not isinstance(hint, str)}


def _has_words(annotation: Any) -> bool:
    """Whether the annotation describes the argument itself, as ``Annotated[int, Field(description=…)]`` does."""
    extras: Sequence[Any] = getattr(annotation, "__metadata__", ())
    return any(getattr(extra, "description", None) for extra in extras)
