"""The user's hooks: commands that judge the agent's tool calls, declared in `hooks.toml` and Claude Code's settings.

Start reading at `vibe_jupyter.hooks.runner`. A hook can only narrow: it denies a call, makes it ask, or rewrites it
before it is judged. A call that it allows is still judged by the user's rules (docs/hooks.md).
"""
