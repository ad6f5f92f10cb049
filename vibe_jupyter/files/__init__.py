"""The project's files: found, read, searched, edited, written safely. Their tools are in `vibe_jupyter.tools`."""
