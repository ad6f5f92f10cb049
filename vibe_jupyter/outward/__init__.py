"""The notebook's tools for agents outside, over MCP. Start reading at `server`; `http` is how it is reached.

The one package that speaks as an MCP server. It knows neither notebook nor rules: what a call does is up to a `Calls`.
"""
