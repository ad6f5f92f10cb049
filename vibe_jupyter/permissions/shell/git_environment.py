"""Environment in which git doesn't run programs named by a repository."""

from collections.abc import Mapping


def git_environment() -> Mapping[str, str]:
    """Return environment variables for every command that is run.

    With these, git starts no file system monitor named by the repository, doesn't mistake a folder for a bare
    repository, takes no locks for reading, opens no pager, and never prompts for a password. Hooks remain enabled: an
    approved commit runs them.
    """
    settings = (("core.fsmonitor", "false"), ("core.pager", "cat"), ("safe.bareRepository", "explicit"))
    numbered = {f"GIT_CONFIG_KEY_{at}": key for at, (key, _) in enumerate(settings)}
    numbered |= {f"GIT_CONFIG_VALUE_{at}": value for at, (_, value) in enumerate(settings)}
    return {
        **numbered,
        "GIT_CONFIG_COUNT": str(len(settings)),
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
    }
