"""Custom tools: functions with ``@vibe_jupyter.tool``, or subclasses of `BaseTool`.

Classes may have either shape found in Mistral Vibe's manual and releases (docs/custom-tools.md): a `run` with plain
parameters that returns text, or `run(args, ctx)` with a pydantic model that yields its result.
"""

import inspect
import re
import sys
import types
import typing
import warnings
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypeVar, overload

from pydantic import BaseModel, ConfigDict, Field, JsonValue, PrivateAttr, ValidationError, create_model
from pydantic.errors import PydanticUserError

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.protocol import Choice, Level, Question
from vibe_jupyter.tools.contract import (
    SubagentReport,
    ToolContext,
    ToolDefinition,
    answer_nobody,
    checked_name,
    delegate_to_nobody,
    description_of,
    register_tool,
    schema_of,
)

F = TypeVar("F", bound=Callable[..., Any])

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

M = TypeVar("M", bound=BaseModel)

_CONTEXT_NAMES: Final = frozenset({"ctx", "context"})

_SECTION: Final = re.compile(
    r"^(?:(Args|Arguments|Parameters|Params)|Returns?|Raises|Yields?|Examples?|Notes?|See Also|References):?\s*$"
)
_RULE: Final = re.compile(r"^-{3,}\s*$")
_GOOGLE: Final = re.compile(r"^\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<words>.*)$")
_NUMPY: Final = re.compile(r"^(?P<name>\w+)\s*(?::.*)?(?P<words>)$")
_SPHINX: Final = re.compile(r"^:(?P<field>\w+)(?:[^:\n]*\b(?P<name>\w+))?:\s*(?P<words>.*)$")


class ToolPermission(StrEnum):
    """Permission level of a tool. Only the settings can grant it, whatever a class declares."""

    ALWAYS = "always"
    ASK = "ask"
    SANDBOX = "sandbox"
    NEVER = "never"


class PermissionContext(BaseModel):
    """A permission with its reason, as returned by `BaseTool.resolve_permission`."""

    model_config = ConfigDict(extra="ignore")

    permission: ToolPermission
    reason: str | None = None


class BaseToolConfig(BaseModel):
    """Base of a tool's settings, ``[tools.NAME]``."""

    model_config = ConfigDict(extra="allow")

    permission: Level = "ask"
    allowlist: list[str] = []
    denylist: list[str] = []


class BaseToolState(BaseModel):
    """Base of the state that a tool keeps between calls."""

    model_config = ConfigDict(validate_assignment=True)


class InvokeContext(BaseModel):
    """Context of one call, for custom tools."""

    tool_call_id: str
    _context: ToolContext | None = PrivateAttr(default=None)  # None if the tool is used outside a run
    _tool: str = PrivateAttr(default="")

    @classmethod
    def of_call(cls, context: ToolContext, tool: str) -> "InvokeContext":
        """Create the context of a call."""
        made = cls(tool_call_id=context.call_id)
        made._context, made._tool = context, tool
        return made

    async def ask(self, question: str, options: Sequence[str] = ()) -> str | None:
        """Ask the user on a card and wait. Returns None if they don't answer.

        Raises:
            ToolError: nobody can answer.
        """
        asked = Question(question=question, options=tuple(Choice(label=one) for one in options))
        ask = answer_nobody if self._context is None else self._context.ask
        answers = await ask([asked], f"the tool {self._tool}")
        return answers[0].words if answers else None

    async def delegate(self, agent: str, task: str) -> SubagentReport:
        """Run a sub-agent within the run's limits and permissions, and wait for its result.

        Raises:
            ToolError: there is no such sub-agent, or it can't be used here.
        """
        delegate = delegate_to_nobody if self._context is None else self._context.delegate
        return await delegate(agent, task)


class ToolStreamEvent(BaseModel):
    """A progress message of a tool."""

    tool_name: str = ""
    message: str
    tool_call_id: str = ""


class ToolUIData:
    """Base of classes with texts for Mistral Vibe's own front end, which are not used here."""

    def __class_getitem__(cls, models: Any) -> Any:
        return types.GenericAlias(cls, models)


class FrontEndText(BaseModel):
    """Texts for Mistral Vibe's own front end, and the arguments of the methods that give them. Not used here."""

    model_config = ConfigDict(extra="allow")


class BaseTool(ABC):  # noqa: B024 - user classes may be abstract; only `run` is required
    """Base of tools that are classes. Its generic parameters are the tool's pydantic models, in any number."""

    description: ClassVar[str] = ""

    def __init__(self, config: BaseToolConfig, state: BaseToolState) -> None:
        self.config: Any = config
        self.state: Any = state

    def __class_getitem__(cls, models: Any) -> Any:
        return types.GenericAlias(cls, models)

    @classmethod
    def get_name(cls) -> str:
        """Return the tool's name: by default the class name in snake case."""
        return _CAMEL.sub("_", cls.__name__).lower()

    @classmethod
    def get_description(cls) -> str:
        """Return the description for the model: by default `description` or the docstring's summary."""
        return cls.description or parse_docstring(cls.__doc__).summary

    @classmethod
    def get_tool_prompt(cls) -> str | None:
        """Return a prompt that replaces the description: ``prompts/NAME.md`` next to the file, if it exists."""
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        path = None if file is None else Path(file).parent / "prompts" / f"{cls.get_name()}.md"
        return path.read_text(encoding="utf-8") if path is not None and path.is_file() else None

    @classmethod
    def from_config(cls, config: BaseToolConfig) -> "BaseTool":
        """Create the tool with its settings."""
        state = _model_of(cls, BaseToolState)
        return cls(config, state())

    def check_allowlist_denylist(self, args: Any) -> "ToolPermission | None":
        """Restrict a call: NEVER denies it and ASK requires approval, whatever the settings say.

        ALWAYS has no effect, since a tool's code must not extend what its user allows.
        """
        return None

    def resolve_permission(self, args: Any) -> "PermissionContext | None":
        """Restrict a call, like `check_allowlist_denylist`. Later releases of Mistral Vibe call this method."""
        return None

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        """Carry out the call: return the result, or yield it last."""
        raise NotImplementedError


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(*, name: str | None = None, description: str | None = None) -> Callable[[F], F]: ...


def tool(
    function: Callable[..., Any] | None = None, /, *, name: str | None = None, description: str | None = None
) -> Any:
    """Let the agent call a function. Each call needs approval unless the settings say otherwise.

    Args:
        function: an annotated function whose docstring describes it and its arguments.
        name: tool name; None for the function's name.
        description: description for the model; None for the docstring.

    Raises:
        ConfigError: the function can't be a tool. The message is the reason.
    """

    def offer(function: Callable[..., Any]) -> Callable[..., Any]:
        register_tool(definition_of_function(function, name=name, description=description))
        return function

    return offer if function is None else offer(function)


def definition_of_function(
    function: Callable[..., Any], *, name: str | None = None, description: str | None = None
) -> ToolDefinition:
    """Define a tool from a function.

    Raises:
        ConfigError: the function can't be a tool. The message is the reason.
    """
    if inspect.isclass(function) or not callable(function):
        raise ConfigError("@vibe_jupyter.tool requires a function. A class goes on vibe_jupyter.tools.BaseTool.")
    known_as = checked_name(name or getattr(function, "__name__", ""))
    said = parse_docstring(function.__doc__)
    words = description or said.summary
    if not words:
        raise ConfigError(f"The tool {known_as} does not say what it does. Give the function a docstring.")
    return _definition(Signature(known_as, function, said.arguments), words)


def definition_of_class(cls: type[BaseTool], options: Mapping[str, JsonValue]) -> ToolDefinition:
    """Define a tool from a class and its settings.

    Raises:
        ConfigError: the class can't be a tool, or its settings are invalid. The message is the reason.
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
        raise ConfigError(f"[tools.{name}] {key}: {problem['msg']}. Fix it in config.toml.") from None
    instance = cls.from_config(config)
    signature = Signature(name, instance.run, parse_docstring(cls.run.__doc__).arguments)
    return _definition(signature, words, cls.get_tool_prompt())._replace(
        result=_result_of(cls, signature.whole), check=_check_of(cls, instance)
    )


def _definition(signature: "Signature", words: str, prompt: str | None = None) -> ToolDefinition:
    """Define a tool, whose prompt takes the place of its description."""
    function = signature.function

    def call(args: BaseModel, context: ToolContext) -> Any:
        return function(**signature.call(args, InvokeContext.of_call(context, signature.name)))

    code = getattr(inspect.unwrap(function), "__code__", None)
    return ToolDefinition(
        name=signature.name,
        description=description_of(words, prompt),
        arguments=signature.arguments(),
        call=call,
        source="" if code is None else f"{code.co_filename}:{code.co_firstlineno}",
    )


def _check_of(cls: type[BaseTool], instance: BaseTool) -> Callable[[BaseModel], Any] | None:
    """Return a function that calls the class's own permission checks, or None if it has none."""
    checks = [
        getattr(instance, name)
        for name in ("check_allowlist_denylist", "resolve_permission")
        if getattr(cls, name) is not getattr(BaseTool, name)
    ]
    return (lambda args: [check(args) for check in checks]) if checks else None


def _model_of(cls: type[BaseTool], base: type[M]) -> type[M]:
    """Return the generic parameter that is a subclass of `base`, else `base` itself."""
    return next((model for model in _models_of(cls) if issubclass(model, base)), base)


def _result_of(cls: type[BaseTool], arguments: type[BaseModel] | None) -> type[BaseModel] | None:
    """Return the model of the results, the generic parameter next to the arguments, or None."""
    plain = [model for model in _models_of(cls) if not issubclass(model, BaseToolConfig | BaseToolState)]
    beside = [model for model in plain if model is not arguments] if arguments else plain[1:]
    return beside[0] if beside else None


def _models_of(cls: type[BaseTool]) -> list[type[BaseModel]]:
    """Return the models among the generic parameters of a class and its bases."""
    generics = (generic for one in cls.__mro__ for generic in getattr(one, "__orig_bases__", ()))
    models = (model for generic in generics for model in getattr(generic, "__args__", ()))
    return [model for model in models if isinstance(model, type) and issubclass(model, BaseModel)]


class Signature:
    """Parameters of a tool's function."""

    def __init__(self, name: str, function: Callable[..., Any], words: Mapping[str, str]) -> None:
        self.name = name
        self.function = function
        self._words = words
        parameters = [one for one in inspect.signature(function).parameters.values() if one.name != "self"]
        # Name of the parameter that receives the call's context, or None
        self.context = next((one.name for one in parameters if _is_context(one)), None)
        self._parameters = [one for one in parameters if one.name != self.context]
        self._hints = _type_hints(function)
        self.whole = self._whole_model()  # the model of a single parameter that takes all arguments, or None

    def arguments(self) -> type[BaseModel]:
        """Create the model of the arguments.

        Raises:
            ConfigError: a parameter can't be passed by a model. The message names it.
        """
        fields: dict[str, Any] = {}
        if self.whole is None:
            given = (one for one in self._parameters if not _is_hidden(one))
            fields = {parameter.name: self._argument_field(parameter) for parameter in given}
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Field name .* shadows an attribute", UserWarning)
                made = self.whole or create_model(self.name, __config__=ConfigDict(extra="forbid"), **fields)
            schema_of(made)  # without a schema, every later prompt would fail
        except (PydanticUserError, NameError, TypeError) as error:
            reason = str(error).split("\n", 1)[0].rstrip(".")
            raise ConfigError(
                f"The arguments of the tool {self.name} cannot be described to a model: {reason}. "
                "Annotate them with text, numbers, true or false, lists and dicts of these, or pydantic models."
            ) from error
        return made

    def call(self, args: BaseModel, context: object) -> dict[str, Any]:
        """Return the keyword arguments for a call."""
        more = {} if self.context is None else {self.context: context}
        if self.whole is not None:
            return {self._parameters[0].name: args, **more}
        return {**{name: getattr(args, name) for name in type(args).model_fields}, **more}

    def _argument_field(self, parameter: inspect.Parameter) -> tuple[Any, Any]:
        by_name = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if not by_name or _is_reserved(parameter.name):
            raise ConfigError(
                f"The tool {self.name} has the parameter {parameter}, which cannot be given by name. "
                "A model gives each argument by its name."
            )
        default: Any = ... if parameter.default is parameter.empty else parameter.default
        words = self._words.get(parameter.name)
        annotation = self._hints.get(parameter.name, Any)
        if words is None or _has_words(annotation):
            return annotation, default
        return annotation, Field(default=default, description=words)

    def _whole_model(self) -> type[BaseModel] | None:
        if len(self._parameters) != 1 or self._parameters[0].default is not inspect.Parameter.empty:
            return None
        annotation: object = self._hints.get(self._parameters[0].name)
        return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _is_hidden(parameter: inspect.Parameter) -> bool:
    """Return whether a parameter is internal to the function."""
    return _is_reserved(parameter.name) and parameter.default is not parameter.empty


def _is_reserved(name: str) -> bool:
    """Return whether pydantic silently treats a name as something other than a field."""
    return name.startswith("_") or name == "model_config"


def _is_context(parameter: inspect.Parameter) -> bool:
    return parameter.name in _CONTEXT_NAMES or "InvokeContext" in str(parameter.annotation)


def _type_hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):  # an undefined forward reference: use the annotations as written
        return {name: hint for name, hint in inspect.get_annotations(function).items() if not isinstance(hint, str)}


def _has_words(annotation: Any) -> bool:
    """Return whether an annotation contains a description, like ``Annotated[int, Field(description=…)]``."""
    extras: Sequence[Any] = getattr(annotation, "__metadata__", ())
    return any(getattr(extra, "description", None) for extra in extras)


class ParsedDocstring(NamedTuple):
    """Parts of a docstring."""

    summary: str  # everything before the first section
    arguments: Mapping[str, str]


def parse_docstring(text: str | None) -> ParsedDocstring:
    """Parse a Google, NumPy or Sphinx style docstring. All parts are optional."""
    lines = inspect.cleandoc(text or "").split("\n")
    start = next((at for at, line in enumerate(lines) if _SECTION.match(line) or _SPHINX.match(line)), len(lines))
    arguments: dict[str, list[str]] = {}
    words: list[str] = []  # of the current argument
    form: re.Pattern[str] | None = None  # of the arguments in the current section, if it is one of arguments
    margin = 0  # indentation of its arguments; text to the left is no part of it
    for line in lines[start:]:
        depth = len(line) - len(line.lstrip())
        if (header := _SECTION.match(line)) is not None:
            form, margin, words = _GOOGLE if header[1] else None, -1, []
        elif (found := _SPHINX.match(line)) is not None:
            form, margin, words = None, 1, [found["words"]]
            if found["field"] == "param" and found["name"]:
                arguments.setdefault(found["name"], words)
        elif form is not None and _RULE.match(line):
            form = _NUMPY
        elif line.strip():
            margin = depth if margin < 0 else margin
            if depth < margin:
                form, words = None, []
            if form is not None and depth == margin and (found := form.match(line.strip())) is not None:
                words = [found["words"]]
                arguments.setdefault(found["name"], words)
            else:
                words.append(line)
    told = {name: " ".join(" ".join(words).split()) for name, words in arguments.items()}
    return ParsedDocstring("\n".join(lines[:start]).strip(), told)
