"""The agent: the loop of model calls and tool calls, without a notebook.

Start reading at `vibe_jupyter.agent.loop`.
"""
