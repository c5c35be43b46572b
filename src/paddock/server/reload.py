"""Separates settings that a running server can apply from those that need a restart. Pure."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from paddock.config import Settings
from paddock.errors import ConfigError
from paddock.model.listen_setting import LISTEN_SETTINGS

RELOADED: Final = (
    *LISTEN_SETTINGS,
    "allowed_origins",
    "allowed_hosts",
    "permissions",
    "network_groups",
    "network_secrets",
    "max_profile",
    "require_sandbox",
    "log_level",
)
"""Settings that take effect without a restart: who may connect, what requests may ask for, and what is
logged."""


def changed_names(old: Settings, new: Settings) -> list[str]:
    """Return the names of the settings that differ."""
    return [name for name in Settings.__struct_fields__ if getattr(old, name) != getattr(new, name)]


def renewed_settings(old: Settings, new: Settings) -> tuple[Settings, list[str]]:
    """Return the settings that a server with `old` continues with, and the names of those that need a
    restart.

    Raises ConfigError when TLS would be switched on or off, because that would change the server's URL.
    """
    if (old.tls_cert is None) != (new.tls_cert is None):
        raise ConfigError("tls_cert", "TLS can't be switched on or off without a restart")
    names = changed_names(old, new)
    taken = {name: getattr(new, name) for name in names if name in RELOADED}
    return replace(old, **taken), [name for name in names if name not in RELOADED]
