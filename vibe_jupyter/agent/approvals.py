"""What binds a decision to the one call it was made for."""

import hashlib

from vibe_jupyter.protocol import Preview, ToolCall


def digest(call: ToolCall, preview: Preview) -> str:
    """SHA-256 over the tool, its arguments and exactly what is shown (security C14)."""
    shown = preview.model_dump_json()
    return hashlib.sha256("\0".join((call.name, call.arguments, shown)).encode("utf-8", "replace")).hexdigest()
