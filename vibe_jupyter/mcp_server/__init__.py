"""MCP server that offers this notebook's tools to external clients.

Start reading at `vibe_jupyter.mcp_server.server`; `http` is its transport.
"""
