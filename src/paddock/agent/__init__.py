"""Tools for an AI agent: commands, files and approvals, on any executor."""
