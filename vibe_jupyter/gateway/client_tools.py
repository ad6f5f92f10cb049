"""Tools defined by clients of Responses or Messages.

All of them are translated to functions of Chat Completions, and calls are translated back to the client's form. A
`namespace` groups tools: Codex sends the tools of an MCP server as one. A `custom` tool takes one text, as does Codex's
`apply_patch`.
"""

import hashlib
import json
import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.gateway.chat_parts import function_tool, objects, text_at
from vibe_jupyter.gateway.chat_request import Object
from vibe_jupyter.llm import json_text

LONGEST: Final = 64  # characters of a function name; every model server accepts this many
INPUT: Final = "input"  # only parameter of the function that a custom tool becomes
_GAP: Final = "__"
_MARK: Final = 8  # hexadecimal digits that distinguish shortened names
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")


class ClientTool(NamedTuple):
    """A tool by the name its client gave it."""

    name: str
    namespace: str = ""
    is_custom: bool = False

    @property
    def label(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


class ClientTools:
    """Tools of one request, with their function names.

    Raises:
        Refused: a tool has no name or isn't an object.
    """

    def __init__(self, given: Sequence[Object], served: Collection[str]) -> None:
        """
        Args:
            given: the request's `tools`.
            served: types of tools that the gateway runs itself; these are skipped.
        """
        self.functions: list[Object] = []  # in the form of Chat Completions
        self._left_out: dict[str, None] = {}
        self._tools: dict[str, ClientTool] = {}
        self._names: dict[tuple[str, str], str] = {}
        for tool in objects(list[JsonValue](given), "tools"):
            if tool.get("type") not in served:
                self._add(tool)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names or types of the tools that aren't offered to the model."""
        return tuple(self._left_out)

    def find(self, name: str) -> ClientTool:
        """Return the tool of a function, or one with the function's name if there is none."""
        return self._tools.get(name) or ClientTool(name)

    def function_name(self, name: str, namespace: str = "") -> str:
        """Return the function name of a tool, which may be missing from this request but occur in its history."""
        return self._names.get((namespace, name)) or function_name(name, namespace)

    def _add(self, tool: Object, namespace: str = "") -> None:
        kind = tool.get("type")
        if kind == "namespace" and not namespace:
            for one in objects(tool.get("tools") or [], "tools"):
                self._add(one, text_at(tool, "name", "tools"))
        elif kind in ("function", "custom"):
            own = ClientTool(text_at(tool, "name", "tools"), namespace, kind == "custom")
            name = self._free_name(own)
            self._tools[name] = own
            self._names[namespace, own.name] = name
            self.functions.append(_custom_function(name, tool) if own.is_custom else _function(name, tool))
        else:
            named = tool.get("name")
            self._left_out[ClientTool(named if isinstance(named, str) else str(kind), namespace).label] = None

    def _free_name(self, tool: ClientTool) -> str:
        """Return an unused function name.

        Namespace and name can be split in two places: tool `c` of namespace `a__b` and tool `b__c` of namespace `a`
        would get the same function name.
        """
        name = function_name(tool.name, tool.namespace)
        return _marked_name(tool.namespace, tool.name) if name in self._tools else name


def custom_input(arguments: str) -> str:
    """Extract the text for a custom tool from the arguments that the model wrote."""
    try:
        given = json_text.parse_json_object(arguments).get(INPUT)
    except ValueError:
        return arguments
    return given if isinstance(given, str) else arguments


def custom_arguments(text: str) -> str:
    """Encode the text for a custom tool as arguments of its function."""
    return json.dumps({INPUT: text}, ensure_ascii=False)


def _function(name: str, tool: Object) -> Object:
    return function_tool(name, tool.get("description"), tool.get("parameters"), tool.get("strict"))


def _custom_function(name: str, tool: Object) -> Object:
    form, description = tool.get("format"), tool.get("description")
    words = [description] if isinstance(description, str) else []
    if isinstance(form, dict) and isinstance(definition := form.get("definition"), str):
        words.append(f"The input matches this grammar ({form.get('syntax') or 'lark'}):\n{definition}")
    parameters: Object = {
        "type": "object",
        "properties": {INPUT: {"type": "string", "description": "The whole input, as plain text."}},
        "required": [INPUT],
        "additionalProperties": False,
    }
    return function_tool(name, "\n\n".join(words), parameters)


def function_name(name: str, namespace: str = "") -> str:
    """Return the function name for a tool, restricted to what every model server accepts."""
    plain = _joined(namespace, name)
    return plain if len(plain) <= LONGEST and not _FOREIGN.search(plain) else _marked_name(namespace, name)


def _marked_name(namespace: str, name: str) -> str:
    mark = hashlib.sha256(json.dumps([namespace, name]).encode()).hexdigest()[:_MARK]
    return f"{_FOREIGN.sub('_', _joined(namespace, name))[: LONGEST - _MARK - 1]}_{mark}"


def _joined(namespace: str, name: str) -> str:
    return namespace + name if not namespace or namespace.endswith(_GAP) else f"{namespace}{_GAP}{name}"
