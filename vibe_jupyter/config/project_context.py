"""``[project_context]``: what the model is told of the folder (seed 001, Project Context Customization)."""

from typing import ClassVar

from pydantic import Field

from vibe_jupyter.config.entry import Entry


class ProjectContext(Entry):
    """Bounds of what is told."""

    unused: ClassVar = frozenset({"truncation_buffer"})

    max_chars: int = Field(default=40_000, ge=0)
    max_doc_bytes: int = Field(default=32_768, ge=0)
    max_depth: int = Field(default=3, ge=0)
    max_files: int = Field(default=1_000, ge=0)
    max_dirs_per_level: int = Field(default=20, ge=0)
    default_commit_count: int = Field(default=5, ge=0)
    timeout_seconds: float = Field(default=2.0, gt=0)
    """For each question to git."""
