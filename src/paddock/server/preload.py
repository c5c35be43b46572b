"""Imports what a server otherwise imports when a client first needs it.

A server that others reach does this as soon as it listens, before it reads anything that a client sends.
So no request waits while a module is read, and a running server never mixes modules of an old and a new
installation. A server that runs one command for its own program does without.
"""

from __future__ import annotations

import urllib.parse

from pybase64 import b64decode, b64encode

# ruff: noqa: F401
import paddock.fs.fork_server
import paddock.fs.local
import paddock.fs.remote
import paddock.intercept.approvals
import paddock.process.terminal_end
import paddock.server.confined_operations
import paddock.server.downloads
import paddock.server.file_workers
import paddock.server.handlers.confinement
import paddock.server.session_audit
import paddock.server.watches
