"""The programs of the wrapper back-end: ours, and those that the protocol is from."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from bench.errors import BenchError
from bench.original import bash_of, vendor_directory

_ROOT = Path(__file__).parents[2]

WRAPPER = _ROOT / "src/paddock/native/paddock-execve-wrapper"
_BASH = _ROOT / "src/paddock/native/paddock-bash"
PEER_WRAPPER = vendor_directory() / "codex-execve-wrapper"


def patched_bash() -> Path:
    """Bash with our patch."""
    return _BASH


@cache
def peer_bash() -> Path:
    """The original's Bash that runs here. Raises BenchError."""
    return bash_of(vendor_directory())


def _has_peer_programs() -> bool:
    try:
        return PEER_WRAPPER.exists() and peer_bash().exists()
    except BenchError:
        return False


needs_patched_bash = pytest.mark.skipif(
    not os.access(_BASH, os.X_OK), reason="the patched Bash is not built (make bash)"
)

needs_peer_programs = pytest.mark.skipif(
    not _has_peer_programs(), reason="the peer's shell server is not installed (make peer)"
)
