"""What a person may set of a tool, in ``[tools.NAME]``."""

from pydantic import BaseModel, ConfigDict


class ToolOptions(BaseModel):
    """The base of every tool's options: frozen, and closed to keys that mean nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")
