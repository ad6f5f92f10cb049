"""Changing parts of a text file: what to change, where it stands, and what that looks like.

Start with `edits`, one change after another on a text. `blocks` reads them from what a model writes, `content` keeps
a file's bytes, `near_miss` finds what was meant, `diff` shows it.
"""
