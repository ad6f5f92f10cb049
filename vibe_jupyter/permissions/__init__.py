"""Permission checks: decide which calls may run without approval.

Start reading at `vibe_jupyter.permissions.decide`.
"""
