"""Text descriptions of the user's variables. Start reading at `vibe_jupyter.variables.describe`."""
