"""The person's own tools: a function with ``@vibe_jupyter.tool``, or a class on `BaseTool`.

Both shapes of a class are taken that Mistral Vibe's manual and its releases show (seed 001, Creating Custom Tools):
`run` with plain parameters that returns text, and `run(args, ctx)` with a model that yields its result.
"""

import inspect
import re
import sys
import types
from abc import ABC
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar, cast, overload

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.protocol import Level
from vibe_jupyter.tools.definition import Definition, checked_name, description_of
from vibe_jupyter.tools.docstrings import documented
from vibe_jupyter.tools.registered import register
from vibe_jupyter.tools.signature import Signature

F = TypeVar("F", bound=Callable[..., Any])

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class ToolPermission(StrEnum):
    """How a tool is allowed; only the settings decide, whatever a class says of itself."""

    ALWAYS = "always"
    ASK = "ask"
    NEVER = "never"


class BaseToolConfig(BaseModel):
    """Base of a tool's own settings, ``[tools.NAME]``."""

    model_config = ConfigDict(extra="allow")

    permission: Level = "ask"
    allowlist: list[str] = []
    denylist: list[str] = []


class BaseToolState(BaseModel):
    """Base of what a tool remembers between calls."""

    model_config = ConfigDict(validate_assignment=True)


class InvokeContext(BaseModel):
    """What one call may know."""

    tool_call_id: str


class ToolStreamEvent(BaseModel):
    """Something to show while the tool goes on."""

    tool_name: str = ""
    message: str
    tool_call_id: str = ""


class BaseTool(ABC):  # noqa: B024 - a class of theirs may be abstract; ours wants only `run`
    """Base of tools that are classes. What stands in brackets behind it are its models, in any number."""

    description: ClassVar[str] = ""

    def __init__(self, config: BaseToolConfig, state: BaseToolState) -> None:
        self.config: Any = config
        self.state: Any = state

    def __class_getitem__(cls, models: Any) -> Any:
        return types.GenericAlias(cls, models)

    @classmethod
    def get_name(cls) -> str:
        """The class's own name in small letters, unless a class says otherwise."""
        return _CAMEL.sub("_", cls.__name__).lower()

    @classmethod
    def get_description(cls) -> str:
        """A few lines for the model."""
        return cls.description or documented(cls.__doc__).summary

    @classmethod
    def get_tool_prompt(cls) -> str | None:
        """What the model reads in place of the description: ``prompts/NAME.md`` beside the file, if there is one."""
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        path = None if file is None else Path(file).parent / "prompts" / f"{cls.get_name()}.md"
        return path.read_text(encoding="utf-8") if path is not None and path.is_file() else None

    @classmethod
    def from_config(cls, config: BaseToolConfig) -> "BaseTool":
        """The tool with its settings."""
        state = _model_of(cls, BaseToolState)
        return cls(config, state())

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        """Do it: return the result, or yield it last."""
        raise NotImplementedError


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(*, name: str | None = None, description: str | None = None) -> Callable[[F], F]: ...


def tool(
    function: Callable[..., Any] | None = None, /, *, name: str | None = None, description: str | None = None
) -> Any:
    """Let the agent call a function. It asks before each call, unless the settings say otherwise.

    Args:
        function: with annotations; its docstring says what it does, and what each argument means.
        name: what the agent calls it; None for its own name.
        description: what it does; None for the docstring.

    Raises:
        ConfigError: it cannot be a tool; says why.
    """

    def offer(function: Callable[..., Any]) -> Callable[..., Any]:
        register(definition_of_function(function, name=name, description=description))
        return function

    return offer if function is None else offer(function)


def definition_of_function(
    function: Callable[..., Any], *, name: str | None = None, description: str | None = None
) -> Definition:
    """A function as a tool.

    Raises:
        ConfigError: it cannot be one; says why.
    """
    if inspect.isclass(function) or not callable(function):
        raise ConfigError("@vibe_jupyter.tool wants a function. A class goes on vibe_jupyter.tools.BaseTool.")
    known_as = checked_name(name or getattr(function, "__name__", ""))
    said = documented(function.__doc__)
    words = description or said.summary
    if not words:
        raise ConfigError(f"The tool {known_as} does not say what it does. Give the function a docstring.")
    signature = Signature(known_as, function, said.arguments)
    return Definition(
        name=known_as,
        description=description_of(words, None),
        arguments=signature.arguments(),
        call=lambda args, context: function(**signature.call(args, InvokeContext(tool_call_id=context.call_id))),
        is_async=_is_async(function),
        source=_place(function),
    )


def definition_of_class(cls: type[BaseTool], options: Mapping[str, JsonValue]) -> Definition:
    """A class as a tool, with its settings.

    Raises:
        ConfigError: it cannot be one, or its settings are wrong; says why.
    """
    name = checked_name(cls.get_name())
    words = cls.get_description()
    if not words:
        raise ConfigError(f"The tool {name} does not say what it does. Give it get_description(), or a docstring.")
    try:
        config = _model_of(cls, BaseToolConfig).model_validate(dict(options))
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = ".".join(map(str, problem["loc"]))
        raise ConfigError(f"[tools.{name}] {key}: {problem['msg']}. Mend it in config.toml.") from None
    instance = cls.from_config(config)
    run = cast("Callable[..., Any]", instance.run)
    signature = Signature(name, run, documented(cls.run.__doc__).arguments)
    return Definition(
        name=name,
        description=description_of(words, cls.get_tool_prompt()),
        arguments=signature.arguments(),
        call=lambda args, context: run(**signature.call(args, InvokeContext(tool_call_id=context.call_id))),
        is_async=_is_async(run),
        source=_place(cls.run),
        result=_result_of(cls, signature.whole),
    )


M = TypeVar("M", bound=BaseModel)


def _model_of(cls: type[BaseTool], base: type[M]) -> type[M]:
    """The model of a kind that a class names in its brackets, or its base does; else the plain one."""
    return next((model for model in _models_of(cls) if issubclass(model, base)), base)


def _result_of(cls: type[BaseTool], arguments: type[BaseModel] | None) -> type[BaseModel] | None:
    """The model of the results: what stands in the brackets beside the arguments; None where nothing does."""
    plain = [model for model in _models_of(cls) if not issubclass(model, BaseToolConfig | BaseToolState)]
    beside = [model for model in plain if model is not arguments] if arguments else plain[1:]
    return beside[0] if beside else None


def _models_of(cls: type[BaseTool]) -> list[type[BaseModel]]:
    """The models in the brackets of a class, and of its bases."""
    generics = (generic for one in cls.__mro__ for generic in getattr(one, "__orig_bases__", ()))
    models = (model for generic in generics for model in getattr(generic, "__args__", ()))
    return [model for model in models if isinstance(model, type) and issubclass(model, BaseModel)]


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _place(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"
