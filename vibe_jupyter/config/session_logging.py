"""``[session_logging]``: where conversations are kept (seed 001, Configuration Overview)."""

from vibe_jupyter.config.entry import Entry


class SessionLogging(Entry):
    """The person's wish on journals."""

    enabled: bool = True
    save_dir: str = ""
    """Empty for ``logs/session`` in the person's folder."""
    session_prefix: str = "session"
