"""The user's variables in words. Start reading at `vibe_jupyter.variables.describe`."""
