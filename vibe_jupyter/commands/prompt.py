"""`%vibe prompt`: show the layers of the system prompt and their token counts."""

from collections.abc import Sequence

from vibe_jupyter.commands.sent import token_count
from vibe_jupyter.context.prompt_layers import PromptLayer


def prompt_command(layers: Sequence[PromptLayer], name: str = "") -> str | None:
    """Return the text to print, or None for an unknown layer.

    Args:
        layers: The layers of the prompt.
        name: The layer to print verbatim, or "" for all layers with their token counts.
    """
    if name:
        return next((layer.text for layer in layers if layer.name == name), None)
    whole = "\n\n".join(layer.text for layer in layers)
    lines = [f"The system prompt: {len(whole):,} characters, about {token_count(whole):,} tokens."]
    lines += [f"  {layer.name:<10}{token_count(layer.text):>9,} tokens" for layer in layers]
    return "\n\n".join(["\n".join(lines), *(f"--- {layer.name}\n{layer.text}" for layer in layers)])
