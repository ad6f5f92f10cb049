"""The first step of a call: find its tool, parse and validate its arguments."""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from vibe_jupyter.llm.strict_json import parse_object
from vibe_jupyter.protocol import Headline, TextPart, ToolCall, ToolMessage
from vibe_jupyter.tools.base import Tool, Toolset


@dataclass(frozen=True)
class Prepared:
    """A call that could run."""

    call: ToolCall
    tool: Tool[Any]
    args: BaseModel
    edited: bool = False
    """Whether the person changed the arguments on the card."""


@dataclass(frozen=True)
class Refused:
    """A call that does not run, and what the model is told."""

    message: ToolMessage
    denied: bool = False
    """Whether a person, or the lack of one, said no; a broken call is no denial."""
    summary: str = ""
    """The same for the person, who knows what they said."""


def prepare(call: ToolCall, tools: Toolset) -> Prepared | Refused:
    """Find the tool and validate the arguments by strict JSON (security C37)."""
    tool = tools.find(call.name)
    if tool is None:
        names = ", ".join(spec.name for spec in tools.specs())
        return refuse(call, f"There is no tool {call.name!r}. The tools are: {names}.")
    try:
        arguments = parse_object(call.arguments)
        return Prepared(call, tool, tool.arguments.model_validate(arguments))
    except ValidationError as error:
        return refuse(call, explain(call.name, error))
    except ValueError as error:
        return refuse(
            call,
            f"The arguments of {call.name} are not one JSON object: {error}. Nothing was run; send the call again.",
        )


def headline_of(call: ToolCall, tools: Toolset) -> Headline:
    """The headline of any call, also of one that cannot be prepared."""
    prepared = prepare(call, tools)
    if isinstance(prepared, Prepared):
        return prepared.tool.headline(prepared.args)
    return Headline(verb="Called", doing="Calling", asking="Call", target=call.name)


def refuse(call: ToolCall, text: str) -> Refused:
    """A call that does not run, with what the model is told."""
    return Refused(error_message(call, text), summary=text.split("\n", 1)[0])


def error_message(call: ToolCall, text: str) -> ToolMessage:
    """A failed result of one text."""
    return ToolMessage(call_id=call.id, name=call.name, parts=(TextPart(text=text),), is_error=True)


def explain(name: str, error: ValidationError) -> str:
    """Name each wrong field and why."""
    problems = "; ".join(
        f"{'.'.join(str(step) for step in problem['loc']) or 'arguments'}: {problem['msg']}"
        for problem in error.errors(include_url=False)
    )
    return f"Wrong arguments for {name}: {problems}. Nothing was run."
