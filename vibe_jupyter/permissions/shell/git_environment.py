"""The environment that keeps every git from running what a repository names."""

from collections.abc import Mapping


def git_environment() -> Mapping[str, str]:
    """Variables for every command that is run.

    A watcher named by the repository does not start, a folder that only looks like a repository is none, reading
    takes no locks, nothing opens a pager, and nothing waits for a password. Hooks stay: a commit that was approved
    runs them.
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
