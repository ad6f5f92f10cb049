"""An HTTP server that puts the agent and its MCP tools behind the APIs of model servers (docs/gateway.md).

Start reading at `vibe_jupyter.gateway.exchange`, which turns a request into a run and the run's events into a response.
"""
