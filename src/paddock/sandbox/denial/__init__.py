"""Turns the calls of a traced command, or what it wrote, into denials: what its sandbox refused."""
