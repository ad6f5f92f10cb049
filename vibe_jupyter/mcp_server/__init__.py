"""This notebook's tools for external clients, over MCP.

Start reading at `vibe_jupyter.mcp_server.server`; `http` is how it is reached.
"""
