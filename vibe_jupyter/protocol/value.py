"""The base of every value that crosses a boundary."""

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """Frozen and closed: an unknown key is an error, never silently dropped."""

    model_config = ConfigDict(frozen=True, extra="forbid")
