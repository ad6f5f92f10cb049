"""The user's kernel: its main thread, the code that runs there, and clicks meanwhile.

Start reading at `vibe_jupyter.kernel.pump`, then `main_thread`.
"""
