"""Makes the `Sandbox` of a server from its settings: what the host has, and what is hidden from commands.

Blocks while the host is probed. Loaded when the first sandbox is asked for.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from paddock import installation
from paddock.config import Settings
from paddock.sandbox.host import probe
from paddock.sandbox.interception import Interceptors
from paddock.sandbox.launch import Sandbox
from paddock.sandbox.plan.cap import Cap
from paddock.transport import runtime_directory

if TYPE_CHECKING:
    from paddock.sandbox.denial.exec_answer import ExecPolicy
    from paddock.sandbox.enforce.service import WrapperService

PROBING_DESCRIPTORS = 16
"""What a trial of bubblewrap may need: three pipes with both ends, its program, and files that are read."""


def make_sandbox(settings: Settings, cap: Cap | None) -> Sandbox:
    """Find out what the host can do, and return the `Sandbox` that prepares commands there.

    Raises ListenError when there is no private directory, OSError when there are too few descriptors.
    """
    _require_descriptors()
    directory = runtime_directory.provide(runtime_directory.candidates(os.environ, os.getuid()), os.getuid())
    runtime_directory.reserve(runtime_directory.everywhere(os.environ, os.getuid()), os.getuid())
    host = probe.host(memory_directory=directory)
    return Sandbox(
        host,
        directory,
        hidden_paths(settings),
        use_legacy_landlock=settings.use_legacy_landlock,
        # Every command already leads a session of its own, with a terminal of its own if it has one.
        has_own_session=False,
        cap=cap,
        interceptors=Interceptors(
            host,
            wanted=settings.interception,
            shell=settings.interception_shell,
            serve_wrappers=_serve_wrappers,
        ),
    )


def _serve_wrappers(policy: ExecPolicy, leader: socket.socket | None) -> WrapperService:
    # Few servers need it, and it takes a while to load.
    from paddock.server.wrapper_server import WrapperServer

    return WrapperServer(policy, leader)


def _require_descriptors() -> None:
    """Raise OSError if there are too few to find out about the host: what is found is believed for good."""
    with contextlib.ExitStack() as opened:
        for _ in range(PROBING_DESCRIPTORS):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


def hidden_paths(settings: Settings) -> list[Path]:
    """Return the paths that no confined command may read or change: the servers' own files and
    directories."""
    named = (
        settings.audit_log,
        settings.ws_token_file,
        settings.ws_shared_secret_file,
        settings.tls_key,
        *(secret.file for secret in settings.network_secrets.values()),
        *installation.concealed(),
    )
    directories = runtime_directory.everywhere(os.environ, os.getuid())
    return [*map(Path, directories), *(Path(name).absolute() for name in named if name is not None)]
