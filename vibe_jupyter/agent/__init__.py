"""The agent: the loop of model requests and tool calls, independent of notebooks.

Start reading at `vibe_jupyter.agent.loop`.
"""
