"""The instructions a conversation begins with. They never change within one, so that servers can cache them."""

from importlib import resources


def instructions(name: str = "default") -> str:
    """The system prompt of that name, from ``prompts/NAME.md``."""
    return resources.files("vibe_jupyter.agent").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8").strip()
