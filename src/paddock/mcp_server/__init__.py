"""Paddock as an MCP server: an edge, which parses and renders.

What it needs beyond Paddock is the official MCP SDK (extra `mcp`). Only the modules that speak the protocol
import it: `service` and the transports.
"""
