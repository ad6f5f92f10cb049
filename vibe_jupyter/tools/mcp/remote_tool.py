"""A tool as its server lists it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pydantic import JsonValue


@dataclass(frozen=True)
class RemoteTool:
    """Everything of a tool that the model or the person is shown, and nothing that grants."""

    name: str
    """The server's own name for it; anything at all."""
    description: str
    input_schema: Mapping[str, JsonValue]
    title: str = ""
    output_schema: Mapping[str, JsonValue] | None = None
    annotations: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Hints such as ``readOnlyHint``: shown, never trusted (security C30)."""

    @cached_property
    def digest(self) -> str:
        """What a change of definition changes: hash of name, description and schema (security C29)."""
        said = [self.name, self.description, dict(self.input_schema)]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
