"""The agent and its MCP tools behind the HTTP APIs of model servers (docs/gateway.md).

Start reading at `vibe_jupyter.gateway.exchange`: a request becomes a run, and the run's events become its answer.
"""
