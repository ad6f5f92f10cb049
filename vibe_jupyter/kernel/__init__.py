"""The user's kernel: its main thread, the code that runs on it, and widget clicks handled meanwhile.

Start reading at `vibe_jupyter.kernel.pump`, then `main_thread`.
"""
