"""Imports what a server otherwise imports when a client first needs it.

A server that others reach does this at its start: then no client waits while a module is read, and a running
server never mixes modules of an old and a new installation. A server that runs one command for its own
program does without.
"""

from __future__ import annotations

# ruff: noqa: F401
import paddock.fs.fork_server
import paddock.fs.local
import paddock.fs.remote
import paddock.intercept.approvals
import paddock.server.confined_operations
import paddock.server.downloads
import paddock.server.watches
