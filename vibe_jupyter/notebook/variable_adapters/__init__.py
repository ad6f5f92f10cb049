"""How values of one kind are described: an `Adapter` each, listed in `vibe_jupyter.notebook.variables`."""
