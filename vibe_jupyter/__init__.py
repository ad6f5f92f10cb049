"""An AI agent that lives in your notebook: `%load_ext vibe_jupyter`, then `%%vibe` and a wish.

Start reading at `vibe_jupyter.magics`, then `vibe_jupyter.app`, then `vibe_jupyter.agent.loop`.
"""

__version__ = "0.1.0"
