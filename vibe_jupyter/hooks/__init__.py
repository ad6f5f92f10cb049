"""The user's hooks: commands that judge the agent's tool calls, read from ``hooks.toml`` and Claude Code's settings.

Start reading at `vibe_jupyter.hooks.runner`. A hook only narrows: it denies a call, makes it ask, or rewrites it before
it is judged. What it allows is judged by the user's rules all the same (docs/hooks.md).
"""
