"""Discovers what a host offers to agents: settings, skills and plugins, where Codex keeps them."""
