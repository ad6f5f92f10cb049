"""Files of hooks in both forms, and what each comes to: data, read by `test_reading`."""

from typing import Final, NamedTuple


class FileCase(NamedTuple):
    """A file, and the calls that its hooks judge."""

    name: str
    file: str
    text: str
    judges: dict[str, tuple[str, ...]] = {}
    """Event to tools of ours that a hook of it selects; tools are those of `TOOLS`."""
    wrong: str = ""
    """Part of the error; empty where the file is right."""
    unheeded: tuple[str, ...] = ()


TOOLS: Final[dict[str, tuple[str, ...]]] = {
    "bash": ("bash",),
    "read_file": ("read_file",),
    "write_file": ("write_file",),
    "search_replace": ("search_replace",),
    "grep": ("grep",),
    "run_code": ("run_code",),
    "edit_cell": ("edit_cell",),
    "task": ("task",),
    "mcp__git__push": ("mcp__git__push", "git_push"),
}
"""Our tools under the names they go by."""
EVERY: Final = tuple(TOOLS)


def vibe(extra: str = "", *, kind: str = "pre_tool", command: str = "true") -> str:
    return f'[[hooks]]\nname = "one"\ntype = "{kind}"\ncommand = "{command}"\n{extra}\n'


def claude(matcher: str, event: str = "PreToolUse", handler: str = '{"type": "command", "command": "true"}') -> str:
    return f'{{"hooks": {{"{event}": [{{"matcher": "{matcher}", "hooks": [{handler}]}}]}}}}'


VIBE_CASES: Final = (
    FileCase("every tool", "hooks.toml", vibe(), {"pre_tool": EVERY}),
    FileCase("a star", "hooks.toml", vibe('match = "*"'), {"pre_tool": EVERY}),
    FileCase("one tool", "hooks.toml", vibe('match = "bash"'), {"pre_tool": ("bash",)}),
    FileCase("its older key", "hooks.toml", vibe('matcher = "grep"'), {"pre_tool": ("grep",)}),
    FileCase("both keys", "hooks.toml", vibe('matcher = "grep"\nmatch = "bash"'), {"pre_tool": ("bash",)}),
    FileCase("an empty match beside", "hooks.toml", vibe('matcher = "grep"\nmatch = ""'), wrong="it is empty"),
    FileCase("capitals", "hooks.toml", vibe('match = "BASH"'), {"pre_tool": ("bash",)}),
    FileCase("the qualified name", "hooks.toml", vibe('match = "file_system.bash"'), {"pre_tool": ("bash",)}),
    FileCase("its name in release 3", "hooks.toml", vibe('match = "edit"'), {"pre_tool": ("search_replace",)}),
    FileCase("our name", "hooks.toml", vibe('match = "search_replace"'), {"pre_tool": ("search_replace",)}),
    FileCase("read of release 3", "hooks.toml", vibe('match = "read"'), {"pre_tool": ("read_file",)}),
    FileCase("a glob", "hooks.toml", vibe('match = "*_file"'), {"pre_tool": ("read_file", "write_file")}),
    FileCase("a set", "hooks.toml", vibe('match = "[bg]*"'), {"pre_tool": ("bash", "grep", "mcp__git__push")}),
    FileCase("a regex", "hooks.toml", vibe('match = "re:(bash|grep)"'), {"pre_tool": ("bash", "grep")}),
    FileCase("a whole regex", "hooks.toml", vibe('match = "re:bas"'), {"pre_tool": ()}),
    FileCase("a server's tools", "hooks.toml", vibe('match = "mcp__git__*"'), {"pre_tool": ("mcp__git__push",)}),
    FileCase("its older name", "hooks.toml", vibe('match = "git_push"'), {"pre_tool": ("mcp__git__push",)}),
    FileCase("release 2.18", "hooks.toml", vibe(kind="before_tool"), {"pre_tool": EVERY}),
    FileCase("after a tool", "hooks.toml", vibe('match = "grep"', kind="post_tool"), {"post_tool": ("grep",)}),
    FileCase("switched off", "hooks.toml", vibe("enabled = false"), {"pre_tool": ()}),
    FileCase(
        "a key that is not known",
        "hooks.toml",
        vibe("only_root = true"),
        {"pre_tool": EVERY},
        unheeded=("hooks[1].only_root",),
    ),
    FileCase("no hooks", "hooks.toml", "", {"pre_tool": ()}),
    FileCase("no command", "hooks.toml", '[[hooks]]\nname = "one"\ntype = "pre_tool"\n', wrong="hooks[1].command"),
    FileCase("a blank command", "hooks.toml", vibe(command=" "), wrong="hooks[1].command: it is empty"),
    FileCase("no such event", "hooks.toml", vibe(kind="pre_tools"), wrong="none of pre_tool, post_tool, post_agent"),
    FileCase("a broken regex", "hooks.toml", vibe('match = "re:("'), wrong="is not a regular expression"),
    FileCase("an empty match", "hooks.toml", vibe('match = ""'), wrong="it is empty"),
    FileCase("no time", "hooks.toml", vibe("timeout = 0"), wrong="hooks[1].timeout"),
    FileCase("strict at the end", "hooks.toml", vibe("strict = true", kind="post_agent"), wrong="can be strict"),
    FileCase("a number for hooks", "hooks.toml", "hooks = 3\n", wrong="expected [[hooks]] entries"),
    FileCase("no TOML", "hooks.toml", "[[hooks", wrong="is not TOML"),
)
CLAUDE_CASES: Final = (
    FileCase("Bash", "settings.json", claude("Bash"), {"pre_tool": ("bash",)}),
    FileCase("several", "settings.json", claude("Edit|Write"), {"pre_tool": ("write_file", "search_replace")}),
    FileCase("Read", "settings.json", claude("Read"), {"pre_tool": ("read_file",)}),
    FileCase("a cell", "settings.json", claude("NotebookEdit"), {"pre_tool": ("edit_cell",)}),
    FileCase("code of a kernel", "settings.json", claude("mcp__ide__executeCode"), {"pre_tool": ("run_code",)}),
    FileCase("a sub-agent", "settings.json", claude("Task"), {"pre_tool": ("task",)}),
    FileCase("a regex within the name", "settings.json", claude("mcp__git__.*"), {"pre_tool": ("mcp__git__push",)}),
    FileCase("a part of a name", "settings.json", claude("Notebook.*"), {"pre_tool": ("edit_cell",)}),
    FileCase("no part without a regex", "settings.json", claude("Note"), {"pre_tool": ()}),
    FileCase("no matcher", "settings.json", claude(""), {"pre_tool": EVERY}),
    FileCase("a star again", "settings.json", claude("*"), {"pre_tool": EVERY}),
    FileCase("after", "settings.json", claude("Bash", "PostToolUse"), {"post_tool": ("bash",)}),
    FileCase(
        "in hooks.toml",
        "hooks.toml",
        '[[hooks.PreToolUse]]\nmatcher = "Bash"\n[[hooks.PreToolUse.hooks]]\ntype = "command"\ncommand = "true"\n',
        {"pre_tool": ("bash",)},
    ),
    FileCase(
        "without the inner list",
        "hooks.json",
        '{"hooks": {"PreToolUse": [{"matcher": "Bash", "command": "true"}]}}',
        {"pre_tool": ("bash",)},
    ),
    FileCase("all switched off", "settings.json", claude("Bash")[:-1] + ', "disableAllHooks": true}', {"pre_tool": ()}),
    FileCase(
        "an event that blocks prompts",
        "settings.json",
        claude("", "UserPromptSubmit"),
        unheeded=("hooks.UserPromptSubmit",),
    ),
    FileCase("an event that only tells", "settings.json", claude("", "Notification"), {"pre_tool": ()}),
    FileCase(
        "a model as judge",
        "settings.json",
        claude("Bash", handler='{"type": "prompt", "prompt": "Is it safe?"}'),
        unheeded=("hooks.PreToolUse[1].hooks[1].type",),
    ),
    FileCase(
        "a condition",
        "settings.json",
        claude("Bash", handler='{"command": "true", "if": "Bash(git *)"}'),
        unheeded=("hooks.PreToolUse[1].hooks[1].if",),
    ),
    FileCase(
        "denied by a list", "settings.json", '{"permissions": {"deny": ["Bash"]}}', unheeded=("permissions.deny",)
    ),
    FileCase("allowed by a list", "settings.json", '{"permissions": {"allow": ["Bash"]}}'),
    FileCase("a sandbox", "settings.json", '{"sandbox": {"enabled": true}}', unheeded=("sandbox",)),
    FileCase("no sandbox", "settings.json", '{"sandbox": {"enabled": false}}'),
    FileCase("no list of rules", "settings.json", '{"hooks": {"PreToolUse": {}}}', wrong="expected a list of tables"),
    FileCase("no JSON", "settings.json", "{", wrong="is not JSON"),
)
CASES: Final = (*VIBE_CASES, *CLAUDE_CASES)
