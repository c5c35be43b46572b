"""The profiles that a server knows by name, and the one that caps what its clients may ask for.

It reads its settings once. It does not know what a profile means for the files of the host: `sandbox`
compares a request with the cap when it plans.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paddock.config import Settings
from paddock.errors import ConfigError, InvalidParams, InvalidProfile, ProfileExceeded
from paddock.model.profile import NetworkMode
from paddock.sandbox.profile.enforced import is_enforced

if TYPE_CHECKING:
    from paddock.sandbox.plan.cap import Cap
    from paddock.sandbox.profile.table import WrittenProfile

PERMISSIONS = "permissions"


class Profiles:
    """The named profiles and the cap. Raises ConfigError for settings that make no sense."""

    def __init__(self, settings: Settings) -> None:
        self._tables = settings.permissions
        self._cap_name = settings.max_profile
        self._known: dict[str, WrittenProfile] = {}
        # Most servers have none, and it takes a while to load what reads them.
        for name in self._tables:
            self._check(name, f"{PERMISSIONS}.{name}")
        self.cap: Cap | None = None if self._cap_name is None else self._read_cap(self._cap_name)

    def named(self, name: str) -> WrittenProfile:
        """Return a profile of the settings, or a built-in one. Raises InvalidParams."""
        if not name:
            raise InvalidParams("params.sandbox.profile: it is empty; name a profile")
        try:
            return self._find(name)
        except InvalidProfile as error:
            raise InvalidParams(f"params.sandbox.profile: {error}") from error

    def refuse_unconfined(self, subject: str) -> None:
        """Refuse an operation with all the server's rights. Raises ProfileExceeded if there is a cap."""
        if self.cap is not None:
            raise ProfileExceeded(subject, self.cap.name)

    def refuse_network(self, subject: str) -> None:
        """Refuse an operation on the network. Raises ProfileExceeded if the cap grants no network."""
        if self.cap is not None and self.cap.profile.network is not NetworkMode.ENABLED:
            raise ProfileExceeded(subject, self.cap.name)

    def _read_cap(self, name: str) -> Cap | None:
        from paddock.sandbox.plan.cap import Cap
        from paddock.sandbox.profile.access import names_workspace

        written = self._check(name, "max_profile")
        if not is_enforced(written.profile):
            return None
        # Never those of a request, which could name the root of the file system. None for a profile that does
        # not speak of them: a link in a project root counts as one that a command may have made.
        roots = written.workspace_roots or ((os.getcwd(),) if names_workspace(written.profile) else ())
        return Cap(name, written.profile, roots)

    def _check(self, name: str, setting: str) -> WrittenProfile:
        try:
            return self._find(name)
        except InvalidProfile as error:
            at_fault = ".".join(error.key) if PERMISSIONS in error.key[:1] else setting
            raise ConfigError(at_fault, str(error)) from error

    def _find(self, name: str) -> WrittenProfile:
        known = self._known.get(name)
        if known is None:
            from paddock.sandbox.profile.table import parse_table

            home = os.path.expanduser("~")
            known = self._known[name] = parse_table({PERMISSIONS: self._tables}, PERMISSIONS, home, name)
        return known
