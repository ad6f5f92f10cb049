"""The notebook that owns this kernel: its cells, over the bridge to its page or out of its file."""
