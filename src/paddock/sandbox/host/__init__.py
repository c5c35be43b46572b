"""Finds out what this machine has: its files, its kernel, its bubblewrap, and what they can enforce."""
