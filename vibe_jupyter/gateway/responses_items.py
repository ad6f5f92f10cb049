"""Items of the Responses API for shell commands, files and vendor fields."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from vibe_jupyter.gateway.echoes import kept_echo, token_of, without_thoughts
from vibe_jupyter.gateway.writer import Object
from vibe_jupyter.llm import json_text
from vibe_jupyter.protocol import AssistantMessage, ToolCall

SHELL: Final = "bash"  # tool whose calls are encoded as shell items
NOT_RUN: Final = 126  # exit code of a command that wasn't run; its stderr has the reason
MCP_ID: Final = "mcp_"  # prefix of MCP call IDs
_ID_BYTES: Final = 16  # random bytes of an ID


def new_id(kind: str) -> str:
    """Return a random ID that begins with its kind, such as ``resp``."""
    return f"{kind}_{secrets.token_hex(_ID_BYTES)}"


def shell_call(call: ToolCall) -> Object:
    """Build the item of a call that starts."""
    try:
        command = json_text.parse_json_object(call.arguments).get("command")
    except ValueError:
        command = None
    commands: list[JsonValue] = [command] if isinstance(command, str) else []
    return {
        "type": "shell_call",
        "id": new_id("sh"),
        "call_id": call.id,
        "action": {"commands": commands, "timeout_ms": None, "max_output_length": None},
        "environment": None,
        "status": "in_progress",
    }


def shell_output(call_id: str, result: str, details: Mapping[str, JsonValue]) -> Object:
    """Build the item with the output of a call.

    Args:
        call_id: ID of the call.
        result: text of the result for the model.
        details: the tool's details of the command; empty if it wasn't run.
    """
    status = details.get("exit_code")
    outcome: Object = {"type": "exit", "exit_code": status if isinstance(status, int) else NOT_RUN}
    if details.get("timed_out"):
        outcome = {"type": "timeout"}
    said: Object = {"stdout": details.get("stdout") or "", "stderr": details.get("stderr") or "", "outcome": outcome}
    if not details:
        said["stderr"] = result
    return {
        "type": "shell_call_output",
        "id": new_id("sho"),
        "call_id": call_id,
        "output": [said],
        "max_output_length": None,
        "status": "completed",
    }


def shell_output_text(item: Object) -> str:
    """Return the text for the model of an output item that a client sends back."""
    output = item.get("output")
    texts: list[str] = []
    for one in output if isinstance(output, list) else ():
        if isinstance(one, dict):
            texts += [str(one[name]) for name in ("stdout", "stderr") if one.get(name)]
    return "\n".join(texts)


def sealed(echo: Object) -> Object:
    """Return the `encrypted_content` field of a reasoning item, or {} if there is nothing to carry."""
    return {"encrypted_content": token_of(echo)} if echo else {}


def state_items(message: AssistantMessage, origin: str) -> list[Object]:
    """Return an item that carries the vendor fields of an answer other than reasoning, or [] if there are none."""
    echo = without_thoughts(kept_echo(message, origin), message.reasoning_field)
    item: Object = {"type": "reasoning", "id": new_id("rs"), "summary": [], "status": "completed"}
    return [{**item, **sealed(echo)}] if echo else []


def citations(text: str, files: Sequence[Object], container: str) -> list[JsonValue]:
    """Build annotations that cite produced files in a text. Files that it doesn't mention are cited at its end."""
    made: list[JsonValue] = []
    for one in files:
        name = str(one["name"])
        start = text.find(name)
        made.append(
            {
                "type": "container_file_citation",
                "container_id": container,
                "file_id": one["id"],
                "filename": name,
                "start_index": start if start >= 0 else len(text),
                "end_index": start + len(name) if start >= 0 else len(text),
            }
        )
    return made
