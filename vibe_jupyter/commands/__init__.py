"""Sub-commands of `%vibe` and their completion."""
