"""The version of this package.

Start reading at `vibe_jupyter.magics`, then `vibe_jupyter.app`, then `vibe_jupyter.agent.loop`.
"""

__version__ = "0.1.0"
