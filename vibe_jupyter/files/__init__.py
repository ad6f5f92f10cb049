"""The project's files: finding, reading, searching and editing them safely. Their tools are in `vibe_jupyter.tools`."""
