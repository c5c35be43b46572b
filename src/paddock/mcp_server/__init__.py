"""Paddock as an MCP server: an edge, which parses and renders.

Beyond Paddock it needs the official MCP SDK (extra `mcp`). Only the modules that speak the protocol import
it: `service` and the transports.
"""
