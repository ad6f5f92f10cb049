"""What may run without asking. Start reading at `vibe_jupyter.permissions.decide`."""
