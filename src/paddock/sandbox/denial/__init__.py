"""Finds what a sandbox refused, from the calls of a traced command or from what it wrote."""
