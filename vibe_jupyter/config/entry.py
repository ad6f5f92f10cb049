"""What all tables of the settings have in common."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Entry(BaseModel):
    """One table. Unknown keys are told by `vibe_jupyter.config.unknown`, which knows their lines."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    unused: ClassVar[frozenset[str]] = frozenset()
    """Keys of Mistral Vibe's files that mean nothing here, and are no reason for a word."""
