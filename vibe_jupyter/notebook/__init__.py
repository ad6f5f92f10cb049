"""The notebook that this kernel belongs to: its cells, through the bridge to its page or from its file."""
