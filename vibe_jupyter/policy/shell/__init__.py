"""Which shell commands run without asking. Start reading in `vibe_jupyter.policy.shell.judge`.

A command is read twice, by a small grammar of our own and by tree-sitter's; then each of its simple commands is
judged by a table of its own. tree-sitter is imported with the first command, not before.
"""
