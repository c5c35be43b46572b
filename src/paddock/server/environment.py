"""Describes the server's host to clients: shell, directories, capabilities."""

from __future__ import annotations

import contextlib
import os
import pwd
import sys
from functools import cache
from importlib import import_module

from paddock.config import Settings
from paddock.host_text import utf8_environment, utf8_text
from paddock.protocol.methods import METHODS
from paddock.protocol.path import file_uri
from paddock.protocol.session import EnvironmentInfo, Shell
from paddock.version import __version__

REFERENCE_CAPABILITIES = (
    "networkProxyLaunch",
    "networkProxyReviewDomains",
    "credentialMasking",
    "credentialMaskingCustomProviders",
    "capabilityDiscoverySandbox",
    "fsWatchMissing",
    "capabilityDiscoveryV2",
    "environmentConfigRead",
    "httpHeaderEnvVars",
    "sandboxedFileStreaming",
    "fileWriteStreaming",
    "shellSnapshotV2",
    "windowsMxc",
    "linuxRootWritePreservesDevices",
    "linuxApprovedRootWritePreservesRestrictions",
)
"""Capabilities of the reference protocol."""

OFFERED_CAPABILITIES = frozenset(
    {
        "capabilityDiscoverySandbox",
        "capabilityDiscoveryV2",
        "environmentConfigRead",
        "fileWriteStreaming",
        "fsWatchMissing",
        "httpHeaderEnvVars",
        "sandboxedFileStreaming",
    }
)
"""The capabilities of the reference protocol that this version offers."""

EXTENSION_CAPABILITIES = (
    *(method.capability for method in METHODS.values() if method.capability is not None),
    "processSignals",
    "processTerminateGraceful",
    "processIo",
    "startIdempotency",
    "cwdWithoutLinks",
    "keepAlive",
    "outputGaps",
    "orderedWrites",
    "lifecycleNotifications",
    "absolutePaths",
    "atomicWrites",
    "confirmedCloses",
    "treeTransfers",
    "fsLinks",
    "fsWay",
    "changesWithoutLinks",
    "namedProfiles",
    "sandboxTrace",
    "proxiedNetwork",
    "networkPolicyUpdate",
    "execInterception",
    "serverRequests",
)
"""Capabilities beyond the reference protocol, for clients that asked for extensions."""

FALLBACK_SHELL = "/bin/sh"

COMMAND_SHELLS = frozenset({"bash", "sh", "zsh"})
"""What clients can write commands for. The reference client refuses to run anything for another name."""

USUAL_SHELLS = ("/usr/bin/bash", "/bin/bash", FALLBACK_SHELL)
"""Stand in for a user's shell that is none of them, such as fish or dash, as on the reference server."""


def describe_environment(settings: Settings, *, with_extensions: bool) -> EnvironmentInfo:
    """Describe the host as a client sees it now. Use a plain default for what the server can't find out."""
    shell = command_shell()
    home = user_home()
    temporary = utf8_environment().get("TMPDIR")
    return EnvironmentInfo(
        shell=Shell(name=os.path.basename(shell), path=shell),
        executor_version=__version__,
        provider_id=_provider_id(),
        cwd=file_uri(_working_directory(home)),
        user_home_dir=file_uri(home),
        platform_os="linux",
        prepend_path_dirs=[],
        temporary_directories=[file_uri(temporary)] if temporary and temporary.startswith("/") else [],
        temp_dir=file_uri(temporary if temporary and temporary.startswith("/") else "/tmp"),
        capabilities=_capabilities(settings, with_extensions=with_extensions),
    )


def user_home() -> str:
    """Return the absolute path of the user's home."""
    home = utf8_environment().get("HOME", "")
    return home if home.startswith("/") else _passwd_home()


def user_shell() -> str:
    """Return the absolute path of the user's shell."""
    chosen = utf8_environment().get("SHELL", "")
    if _is_program(chosen):
        return chosen
    with contextlib.suppress(KeyError):
        chosen = utf8_text(pwd.getpwuid(os.getuid()).pw_shell)
    return chosen if _is_program(chosen) else FALLBACK_SHELL


def command_shell() -> str:
    """Return the absolute path of the shell for clients' commands: the user's, if they can write for it."""
    chosen = user_shell()
    if os.path.basename(chosen) in COMMAND_SHELLS:
        return chosen
    return next(filter(_is_program, USUAL_SHELLS), FALLBACK_SHELL)


def _is_program(path: str) -> bool:
    return path.startswith("/") and os.access(path.encode("utf-8", "surrogateescape"), os.X_OK)


def _capabilities(settings: Settings, *, with_extensions: bool) -> dict[str, bool]:
    capabilities = {name: name in OFFERED_CAPABILITIES for name in REFERENCE_CAPABILITIES}
    if with_extensions:
        capabilities |= dict.fromkeys(EXTENSION_CAPABILITIES, True)
        capabilities["directExec"] = settings.allow_direct_exec
        capabilities["preparedExec"] = settings.allow_prepared_exec
    return capabilities


def _passwd_home() -> str:
    try:
        return utf8_text(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return "/"


def _working_directory(fallback: str) -> str:
    try:
        return utf8_text(os.getcwd())
    except FileNotFoundError:
        return fallback


@cache
def _provider_id() -> str:
    """Return a stable name of this host and user that tells nothing else about them."""
    try:
        with open("/etc/machine-id", encoding="ascii") as file:
            machine = file.read().strip()
    except (OSError, UnicodeDecodeError):
        machine = os.uname().nodename
    return f"sha256:{_sha256(f'paddock:{machine}:{os.getuid()}'.encode())}"


def _sha256(data: bytes) -> str:
    """Return a digest. `hashlib` would load OpenSSL for it, which takes longer than to start a command."""
    own_implementation = "_sha2" if sys.version_info >= (3, 12) else "_sha256"
    try:
        module = import_module(own_implementation)
    except ImportError:
        # An interpreter may have been built without it.
        module = import_module("hashlib")
    digest: str = module.sha256(data).hexdigest()
    return digest
