"""Which settings a running server can take over, and from which of them it needs a restart. Pure."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from paddock.config import Settings
from paddock.errors import ConfigError
from paddock.model.door_setting import DOOR_SETTINGS

RELOADED: Final = (
    *DOOR_SETTINGS,
    "allowed_origins",
    "allowed_hosts",
    "permissions",
    "network_groups",
    "network_secrets",
    "max_profile",
    "require_sandbox",
    "log_level",
)
"""What takes effect without a restart: who may connect, what requests may ask for, and what is logged."""


def changed_names(old: Settings, new: Settings) -> list[str]:
    """Return the names of the settings that differ."""
    return [name for name in Settings.__struct_fields__ if getattr(old, name) != getattr(new, name)]


def renewed_settings(old: Settings, new: Settings) -> tuple[Settings, list[str]]:
    """Return what a server with `old` goes on with, and the names of what takes a restart.

    Raises ConfigError when TLS would be switched on or off: the URL of the server would be another.
    """
    if (old.tls_cert is None) != (new.tls_cert is None):
        raise ConfigError("tls_cert", "TLS can't be switched on or off without a restart")
    names = changed_names(old, new)
    taken = {name: getattr(new, name) for name in names if name in RELOADED}
    return replace(old, **taken), [name for name in names if name not in RELOADED]
