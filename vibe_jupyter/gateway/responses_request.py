"""A request of OpenAI's Responses API as one for Chat Completions."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, cast

from pydantic import BaseModel, ConfigDict, JsonValue

from vibe_jupyter.gateway.chat_parts import (
    call_part,
    content_of,
    function_choice,
    function_tool,
    image_part,
    objects,
    result_message,
    text_at,
    text_part,
)
from vibe_jupyter.gateway.chat_request import Object, read_fields
from vibe_jupyter.gateway.refusals import Refused
from vibe_jupyter.gateway.responses_items import SHELL, shell_output_text

PublishedName = Callable[[str, str], str]
"""The name that a server's tool goes by here; empty for none."""

_NOT_FORWARDED: Final = frozenset(
    {
        "include",
        "max_tool_calls",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "stream_options",
        "top_logprobs",
        "truncation",
    }
)
"""What Chat Completions has not, or spells otherwise."""
_REPEATED: Final[Mapping[str, JsonValue]] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "model": "default",
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": None,
    "store": True,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""What a response repeats of its request, and what it says where the request has none."""
_SILENT: Final = frozenset({"reasoning", "mcp_list_tools"})
"""Items that say nothing to another model server."""
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})


class SkillReference(BaseModel):
    """A skill that was uploaded."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    skill_id: str
    version: str | None = None
    """A number or ``latest``, which is what None means too."""


class ResponsesFields(BaseModel):
    """The fields of a request that are translated."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    input: str | list[dict[str, Any]]
    """A text, or items."""
    instructions: str | None = None
    stream: bool | None = False
    previous_response_id: str | None = None
    """Goes on after that response."""
    store: bool | None = True
    """Whether another request can go on after this one."""
    background: bool | None = False
    """Not served."""
    tools: list[dict[str, Any]] | None = None
    """``function``, and ``mcp`` with the `server_label` of a server of this gateway; others are left out."""
    tool_choice: str | dict[str, Any] | None = None
    max_output_tokens: int | None = None
    text: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    conversation: Any = None
    """Not served."""
    prompt: Any = None
    """Not served."""

    def skills(self) -> list[SkillReference]:
        """Those that the shell tools of the request name.

        Raises:
            Refused: one is given in another way.
        """
        found: list[SkillReference] = []
        for tool in self.tools or ():
            environment = tool.get("environment") if tool.get("type") == "shell" else None
            given = cast("Object", environment).get("skills") if isinstance(environment, dict) else None
            for one in objects(given or [], "tools"):
                if one.get("type") != "skill_reference":
                    raise Refused(400, "A skill is given as skill_reference.", code="unsupported", param="tools")
                found.append(read_fields(SkillReference, one))
        return found

    def check(self, servers: Collection[str]) -> None:
        """Refuse what is not served.

        Args:
            servers: MCP servers of this gateway.

        Raises:
            Refused: it is asked for.
        """
        for name in ("background", "conversation", "prompt"):
            if getattr(self, name):
                raise Refused(400, f"{name} is not served here.", code="unsupported", param=name)
        for tool in self.tools or ():
            if tool.get("type") != "mcp":
                continue
            label = text_at(tool, "server_label", "tools")
            if label not in servers:
                known = ", ".join(sorted(servers)) or "none"
                words = f"There is no MCP server {label!r} here, and no request can name an address. Known: {known}."
                raise Refused(400, words, code="unknown_server", param="tools")
            if tool.get("allowed_tools") is not None:
                words = "allowed_tools is not served here: the settings of the gateway say which tools are offered."
                raise Refused(400, words, code="unsupported", param="tools")


def repeated_fields(body: Mapping[str, JsonValue]) -> Object:
    """What the response repeats of a request."""
    return {name: other if (said := body.get(name)) is None else said for name, other in _REPEATED.items()}


def chat_body(
    body: Mapping[str, JsonValue], fields: ResponsesFields, before: Sequence[JsonValue], published: PublishedName
) -> Object:
    """The same request for Chat Completions.

    Args:
        body: the request; what is not known of it goes along.
        fields: those of it that are translated.
        before: messages of earlier responses.
        published: finds MCP tools.

    Raises:
        Refused: it has something that cannot be translated.
    """
    known = _NOT_FORWARDED | ResponsesFields.model_fields.keys()
    made: Object = {name: value for name, value in body.items() if name not in known and value is not None}
    made["messages"] = [*_instructions(fields), *before, *_input_messages(body["input"], published)]
    made["stream"] = bool(fields.stream)
    if fields.stream:
        made["stream_options"] = {"include_usage": True}
    if fields.max_output_tokens is not None:
        made["max_tokens"] = fields.max_output_tokens
    if effort := (fields.reasoning or {}).get("effort"):
        made["reasoning_effort"] = effort
    if (form := _response_format(fields.text or {})) is not None:
        made["response_format"] = form
    tools = [_tool(tool) for tool in fields.tools or () if tool.get("type") == "function"]
    if tools:
        made["tools"] = cast("list[JsonValue]", tools)
    if (choice := _tool_choice(fields, published)) is not None:
        made["tool_choice"] = choice
    return made


def _instructions(fields: ResponsesFields) -> list[JsonValue]:
    return [{"role": "system", "content": fields.instructions}] if fields.instructions else []


def _tool(tool: Object) -> Object:
    name = text_at(tool, "name", "tools")
    return function_tool(name, tool.get("description"), tool.get("parameters"), tool.get("strict"))


def _tool_choice(fields: ResponsesFields, published: PublishedName) -> JsonValue:
    """None where the model chooses, also where the choice is of a tool that is left out."""
    choice = fields.tool_choice
    if not isinstance(choice, dict):
        return choice
    name = choice.get("name")
    if choice.get("type") == "function" and isinstance(name, str):
        return function_choice(name)
    if choice.get("type") == "mcp" and isinstance(name, str):
        found = published(str(choice.get("server_label")), name)
        return function_choice(found) if found else None
    return None


def _response_format(text: Mapping[str, Any]) -> JsonValue:
    form = text.get("format")
    if not isinstance(form, dict):
        return None
    spelled = cast("Object", form)
    if spelled.get("type") == "json_schema":
        schema = {name: spelled[name] for name in ("name", "description", "schema", "strict") if name in spelled}
        return {"type": "json_schema", "json_schema": schema}
    return spelled if spelled.get("type") == "json_object" else None


def _input_messages(given: JsonValue, published: PublishedName) -> list[JsonValue]:
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages = _Messages()
    for item in objects(given, "input"):
        _add_item(messages, item, published)
    return cast("list[JsonValue]", messages.all)


class _Messages:
    """Messages that grow: calls belong to the answer before them."""

    def __init__(self) -> None:
        self.all: list[Object] = []

    def add_call(self, call: Object) -> None:
        """A call of the latest answer, or of one that says nothing else."""
        if not self.all or self.all[-1]["role"] != "assistant":
            self.all.append({"role": "assistant", "content": ""})
        calls = cast("list[JsonValue]", self.all[-1].setdefault("tool_calls", []))
        calls.append(call)


def _add_item(messages: _Messages, item: Object, published: PublishedName) -> None:
    kind = item.get("type") or "message"
    if kind == "message":
        role = text_at(item, "role", "input")
        content = _content(item.get("content"))
        messages.all.append({"role": "system" if role == "developer" else role, "content": content})
    elif kind == "function_call":
        name, arguments = text_at(item, "name", "input"), text_at(item, "arguments", "input")
        messages.add_call(call_part(text_at(item, "call_id", "input"), name, arguments))
    elif kind == "function_call_output":
        messages.all.append(result_message(text_at(item, "call_id", "input"), _content(item.get("output"))))
    elif kind == "mcp_call":
        call_id, tool = text_at(item, "id", "input"), text_at(item, "name", "input")
        name = published(text_at(item, "server_label", "input"), tool) or tool
        messages.add_call(call_part(call_id, name, text_at(item, "arguments", "input")))
        messages.all.append(result_message(call_id, _call_output(item)))
    elif kind == "shell_call":
        messages.add_call(call_part(text_at(item, "call_id", "input"), SHELL, _shell_arguments(item)))
    elif kind == "shell_call_output":
        messages.all.append(result_message(text_at(item, "call_id", "input"), shell_output_text(item)))
    elif kind not in _SILENT:
        raise Refused(400, f"Items of type {kind} are not served here.", code="unsupported", param="input")


def _shell_arguments(item: Object) -> str:
    action = item.get("action")
    commands = action.get("commands") if isinstance(action, dict) else None
    lines = [one for one in commands if isinstance(one, str)] if isinstance(commands, list) else []
    return json.dumps({"command": "\n".join(lines)}, ensure_ascii=False)


def _call_output(item: Object) -> str:
    output, error = item.get("output"), item.get("error")
    if isinstance(output, str):
        return output
    content = error.get("content") if isinstance(error, dict) else None
    texts = [part.get("text") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "\n".join(text for text in texts if isinstance(text, str)) or "The call failed."


def _content(content: JsonValue) -> JsonValue:
    if isinstance(content, str):
        return content
    return content_of(_part(part) for part in objects(content, "input.content"))


def _part(part: Object) -> Object:
    kind = part.get("type")
    if kind in _TEXTS:
        return text_part(text_at(part, "text", "input.content"))
    if kind == "refusal":
        return text_part(text_at(part, "refusal", "input.content"))
    if kind == "input_image" and isinstance(url := part.get("image_url"), str):
        return image_part(url, part.get("detail"))
    if kind == "input_file":
        given = {name: part[name] for name in ("file_id", "filename", "file_data") if part.get(name)}
        return {"type": "file", "file": given}
    raise Refused(400, f"Content of type {kind} is not served here.", code="unsupported", param="input")
