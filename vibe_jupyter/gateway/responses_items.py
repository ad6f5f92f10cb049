"""Items of the Responses API that stand for shell commands and files."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from vibe_jupyter.gateway.writer import Object
from vibe_jupyter.llm import json_text
from vibe_jupyter.protocol import ToolCall

SHELL: Final = "bash"
"""The tool whose calls are shell items."""
NOT_RUN: Final = 126
"""The exit code of a command that was not run; what is said of it stands in its stderr."""
_ID_BYTES: Final = 16
"""Random ones of an id."""


def new_id(kind: str) -> str:
    """An id that begins with its kind, such as ``resp``."""
    return f"{kind}_{secrets.token_hex(_ID_BYTES)}"


def shell_call(call: ToolCall) -> Object:
    """The item of a call that begins."""
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
    """The item of what a call has given.

    Args:
        call_id: the call's.
        result: what the model gets.
        details: what the tool says of the command; empty where it was not run.
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
    """What a model is shown of such an item that a client sends back."""
    output = item.get("output")
    texts: list[str] = []
    for one in output if isinstance(output, list) else ():
        if isinstance(one, dict):
            texts += [str(one[name]) for name in ("stdout", "stderr") if one.get(name)]
    return "\n".join(texts)


def citations(text: str, files: Sequence[Object], container: str) -> list[JsonValue]:
    """The annotations of a text that name the files which were made for it."""
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
