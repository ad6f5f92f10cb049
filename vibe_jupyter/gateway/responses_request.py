"""Translation of OpenAI's Responses requests to Chat Completions."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, JsonValue

from vibe_jupyter.gateway.chat_parts import (
    call_part,
    content_of,
    function_choice,
    image_part,
    objects,
    result_message,
    text_at,
    text_part,
)
from vibe_jupyter.gateway.chat_request import Object, read_fields
from vibe_jupyter.gateway.client_tools import ClientTools, custom_arguments
from vibe_jupyter.gateway.echoes import ECHO, echo_in, join_echoes, with_echo
from vibe_jupyter.gateway.history_text import history_line
from vibe_jupyter.gateway.refusals import Refused
from vibe_jupyter.gateway.responses_items import SHELL, shell_output_text

PublishedName = Callable[[str, str], str]  # returns the name by which a server's tool is offered, or ""

# Fields with another meaning in Chat Completions. Fields that it doesn't have are removed by `fit_request`.
_NOT_FORWARDED: Final = frozenset({"stream_options", "top_logprobs"})
# Fields of the request that a response repeats, with their defaults.
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
_SILENT: Final = frozenset({"mcp_list_tools"})  # items with nothing for a model server
# Items that refer to other items, which aren't stored here
_REFUSED: Final = frozenset({"item_reference", "mcp_approval_response"})
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})


class SkillReference(BaseModel):
    """Reference to an uploaded skill."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    skill_id: str
    version: str | None = None  # a number, or ``latest``, which is the default


class ResponsesFields(BaseModel):
    """The fields of a request that are translated."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    input: str | list[dict[str, Any]]  # text or items
    instructions: str | None = None
    stream: bool | None = False
    previous_response_id: str | None = None  # response to continue from
    store: bool | None = True  # whether later requests can continue from this one
    background: bool | None = False  # not supported
    # ``function``, ``custom``, a ``namespace`` of these, and ``mcp`` with the `server_label` of one of the gateway's
    # servers. Others are left out.
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    max_output_tokens: int | None = None
    text: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    conversation: Any = None  # not supported
    prompt: Any = None  # not supported

    def skills(self) -> list[SkillReference]:
        """Return the skills that the request's shell tools reference.

        Raises:
            Refused: a skill is given in another form.
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

    @property
    def begins(self) -> bool:
        """True if the conversation has no answer yet."""
        if self.previous_response_id or isinstance(self.input, str):
            return not self.previous_response_id
        return all(item.get("role") != "assistant" and not _is_call(item) for item in self.input)

    def check(self, servers: Collection[str]) -> None:
        """Reject unsupported features.

        Args:
            servers: names of the gateway's MCP servers.

        Raises:
            Refused: the request uses one, or names an unknown server.
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


def _is_call(item: Mapping[str, Any]) -> bool:
    return str(item.get("type")).endswith("_call")


def repeated_fields(body: Mapping[str, JsonValue]) -> Object:
    """Return the fields of a request that its response repeats."""
    return {name: other if (said := body.get(name)) is None else said for name, other in _REPEATED.items()}


class KnownTools(NamedTuple):
    """Tools that a request can refer to."""

    client: ClientTools
    published: PublishedName
    of_server: Callable[[str], Sequence[str]]  # returns the names of all tools of a server


def chat_body(
    body: Mapping[str, JsonValue], fields: ResponsesFields, before: Sequence[JsonValue], tools: KnownTools
) -> Object:
    """Translate a request to Chat Completions.

    Args:
        body: the request. Unknown fields are passed on.
        fields: its fields that are translated.
        before: messages up to the previous response.
        tools: the client's tools and those of MCP servers.

    Raises:
        Refused: a part of the request can't be translated.
    """
    known = _NOT_FORWARDED | ResponsesFields.model_fields.keys()
    made: Object = {name: value for name, value in body.items() if name not in known and value is not None}
    made["messages"] = [*_instructions(fields), *before, *_input_messages(body["input"], tools)]
    made["stream"] = bool(fields.stream)
    if fields.stream:
        made["stream_options"] = {"include_usage": True}
    if fields.max_output_tokens is not None:
        made["max_tokens"] = fields.max_output_tokens
    if effort := (fields.reasoning or {}).get("effort"):
        made["reasoning_effort"] = effort
    if (form := _response_format(fields.text or {})) is not None:
        made["response_format"] = form
    if tools.client.functions:
        made["tools"] = cast("list[JsonValue]", tools.client.functions)
    if (choice := _tool_choice(fields, tools)) is not None:
        made["tool_choice"] = choice
    return made


def _instructions(fields: ResponsesFields) -> list[JsonValue]:
    return [{"role": "system", "content": fields.instructions}] if fields.instructions else []


def _tool_choice(fields: ResponsesFields, tools: KnownTools) -> JsonValue:
    """Translate the choice. Returns None to let the model choose, also if the choice names a tool that is left out."""
    choice = fields.tool_choice
    if not isinstance(choice, dict):
        return choice
    if choice.get("type") == "allowed_tools":
        return _allowed_tools(cast("Object", choice), tools)
    name = choice.get("name")
    if choice.get("type") in ("function", "custom") and isinstance(name, str):
        return function_choice(tools.client.function_name(name, _namespace(cast("Object", choice))))
    if choice.get("type") == "mcp" and isinstance(name, str):
        found = tools.published(str(choice.get("server_label")), name)
        return function_choice(found) if found else None
    return None


def _allowed_tools(choice: Object, tools: KnownTools) -> Object:
    """Translate a choice among allowed tools, omitting those that aren't offered."""
    names: list[str] = []
    for tool in objects(choice.get("tools") or [], "tool_choice.tools"):
        kind, name = tool.get("type"), tool.get("name")
        if kind in ("function", "custom"):
            names.append(tools.client.function_name(text_at(tool, "name", "tool_choice.tools"), _namespace(tool)))
        elif kind == "mcp":
            server = text_at(tool, "server_label", "tool_choice.tools")
            names += [tools.published(server, name)] if isinstance(name, str) else tools.of_server(server)
        elif kind == "shell":
            names.append(SHELL)
    allowed: Object = {"mode": choice.get("mode"), "tools": [function_choice(name) for name in names if name]}
    return {"type": "allowed_tools", "allowed_tools": allowed}


def _namespace(item: Object) -> str:
    namespace = item.get("namespace")
    return namespace if isinstance(namespace, str) else ""


def _response_format(text: Mapping[str, Any]) -> JsonValue:
    form = text.get("format")
    if not isinstance(form, dict):
        return None
    spelled = cast("Object", form)
    if spelled.get("type") == "json_schema":
        schema = {name: spelled[name] for name in ("name", "description", "schema", "strict") if name in spelled}
        return {"type": "json_schema", "json_schema": schema}
    return {"type": "json_object"} if spelled.get("type") == "json_object" else None


def _input_messages(given: JsonValue, tools: KnownTools) -> list[JsonValue]:
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    messages = _Messages()
    items = objects(given, "input")
    for place, item in enumerate(items, 1):
        _add_item(messages, item, tools, is_history=place < len(items))
    return cast("list[JsonValue]", messages.all)


class _Messages:
    """Message list under construction. Calls are added to the answer before them."""

    def __init__(self) -> None:
        self.all: list[Object] = []
        self._echo: Object = {}  # vendor fields for the next answer

    def add(self, message: Object) -> None:
        """Append a message. An answer gets the vendor fields collected before it."""
        is_answer = message["role"] == "assistant"
        self.all.append(with_echo(message, self._echo) if is_answer else message)
        self._echo = {}

    def add_echo(self, echo: Object) -> None:
        """Attach vendor fields to the answer at the end of the list, or keep them for the next answer."""
        if self.all and self.all[-1]["role"] == "assistant":
            had = cast("Object", self.all[-1].get(ECHO) or {})
            self.all[-1] = with_echo(self.all[-1], join_echoes(had, echo))
        else:
            self._echo = join_echoes(self._echo, echo)

    def add_call(self, call: Object) -> None:
        """Add a call to the answer at the end of the list, or to a new empty one."""
        if not self.all or self.all[-1]["role"] != "assistant":
            self.add({"role": "assistant", "content": ""})
        calls = cast("list[JsonValue]", self.all[-1].setdefault("tool_calls", []))
        calls.append(call)


def _add_item(messages: _Messages, item: Object, tools: KnownTools, *, is_history: bool) -> None:
    kind = item.get("type") or "message"
    if kind == "message":
        role = text_at(item, "role", "input")
        content = _content(item.get("content"), is_history=is_history)
        messages.add({"role": "system" if role == "developer" else role, "content": content})
    elif kind in ("function_call", "custom_tool_call"):
        is_custom = kind == "custom_tool_call"
        name = tools.client.function_name(text_at(item, "name", "input"), _namespace(item))
        given = text_at(item, "input" if is_custom else "arguments", "input")
        arguments = custom_arguments(given) if is_custom else given
        messages.add_call(call_part(text_at(item, "call_id", "input"), name, arguments))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        messages.add(result_message(text_at(item, "call_id", "input"), _content(item.get("output"), is_history=True)))
    elif kind == "mcp_call":
        call_id, tool = text_at(item, "id", "input"), text_at(item, "name", "input")
        name = tools.published(text_at(item, "server_label", "input"), tool) or tool
        messages.add_call(call_part(call_id, name, text_at(item, "arguments", "input")))
        messages.add(result_message(call_id, _call_output(item)))
    elif kind == "shell_call":
        messages.add_call(call_part(text_at(item, "call_id", "input"), SHELL, _shell_arguments(item)))
    elif kind == "shell_call_output":
        messages.add(result_message(text_at(item, "call_id", "input"), shell_output_text(item)))
    elif kind == "reasoning":
        messages.add_echo(echo_in(item.get("encrypted_content")))
    elif kind in _REFUSED:
        raise Refused(400, f"Items of type {kind} are not served here.", code="unsupported", param="input")
    elif kind not in _SILENT:
        role = "user" if str(kind).endswith("_output") else "assistant"
        messages.add({"role": role, "content": history_line(item)})


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


def _content(content: JsonValue, *, is_history: bool) -> JsonValue:
    if isinstance(content, str):
        return content
    return content_of(_part(part, is_history=is_history) for part in objects(content, "input.content"))


def _part(part: Object, *, is_history: bool) -> Object:
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
    if is_history:
        return text_part(history_line(part))
    words = f"Content of type {kind} is not served here. Send input_text, input_image with image_url, or input_file."
    raise Refused(400, words, code="unsupported", param="input")
