"""Profiles: how people write them, and what their entries grant."""
