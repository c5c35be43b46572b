"""Imports what a server otherwise imports when a client first needs it.

A server that others reach does this at its start: no client waits then while a module is read, and an
installation that is replaced under a running server does not reach it by halves. A server that runs one
command for its own program does without.
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
