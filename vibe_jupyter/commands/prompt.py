"""`%vibe prompt`: the system prompt, layer by layer, and what each costs."""

from collections.abc import Sequence

from vibe_jupyter.commands.sent import token_count
from vibe_jupyter.context.prompt_layers import PromptLayer


def prompt_command(layers: Sequence[PromptLayer], name: str = "") -> str | None:
    """What to print; None where there is no such layer.

    Args:
        layers: of the prompt.
        name: of one of them, to print it as it is sent; empty for all, with their tokens.
    """
    if name:
        return next((layer.text for layer in layers if layer.name == name), None)
    whole = "\n\n".join(layer.text for layer in layers)
    lines = [f"The system prompt: {len(whole):,} characters, about {token_count(whole):,} tokens."]
    lines += [f"  {layer.name:<10}{token_count(layer.text):>9,} tokens" for layer in layers]
    return "\n\n".join(["\n".join(lines), *(f"--- {layer.name}\n{layer.text}" for layer in layers)])
