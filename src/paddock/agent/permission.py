"""Permissions that a command lacks: finds them in denials, adds them to a profile, words them. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from paddock.errors import InvalidProfile
from paddock.model.denial import NOT_NAMED, OWN, Denial, DenialKind
from paddock.model.endpoint import Endpoint
from paddock.model.profile import (
    Access,
    AccessEntry,
    ExactPath,
    ExternalProfile,
    ManagedProfile,
    NamedPath,
    NetworkMode,
    Profile,
    ProxiedNetwork,
    RestrictedFileSystem,
    RootPath,
    mode_of,
)
from paddock.sandbox.profile.access import METADATA_NAMES as PROTECTED_NAMES
from paddock.sandbox.profile.access import AccessTable, Surroundings, resolve
from paddock.sandbox.profile.codec import encode_profile, profile_of
from paddock.sandbox.profile.enforced import entries_of, is_enforced, restricted_files
from paddock.sandbox.profile.glob import Matcher
from paddock.sandbox.profile.table import BUILT_IN_NAMES, built_in

PATHS_LIMIT: Final = 8
"""A person would not read more before saying yes; beyond this the question is about the whole sandbox."""

METADATA_NAMES: Final = frozenset(PROTECTED_NAMES)
_DENIED: Final = f"= {Access.DENY}"
_NOT_GRANTED: Final = "default "


class Permissions(Struct, frozen=True):
    """Permissions on top of a profile. A path is absolute and stands for everything below it."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    has_network: bool = False
    """Whether the command may use the host's whole network."""
    hosts: tuple[str, ...] = ()
    """Hosts with their ports, if a proxy decides on them."""

    def __bool__(self) -> bool:
        return bool(self.read or self.write or self.has_network or self.hosts)


NONE: Final = Permissions()


class Confinement(Struct, frozen=True):
    """The profile of an agent, as far as it is known here: a server may have names of its own."""

    written: str | Mapping[str, Any]
    """As the caller gave it, for the executor."""
    profile: Profile | None
    """None for a name that only the server knows."""

    @property
    def is_restricted(self) -> bool:
        """Return whether there is a sandbox at all, as far as is known."""
        return self.profile is None or is_enforced(self.profile)

    @property
    def denies_reads(self) -> bool:
        """Return whether it hides something, or may: then nothing runs without it, whoever approves."""
        profile = self.profile
        if profile is None:
            return True
        files = restricted_files(profile)
        if files is None:
            return False
        shows_root = any(
            entry.access is not Access.DENY
            and isinstance(entry.path, NamedPath)
            and isinstance(entry.path.value, RootPath)
            for entry in files.entries
        )
        return not shows_root or self.has_denied_paths

    @property
    def has_denied_paths(self) -> bool:
        """Return whether it denies some paths by name or pattern, or may."""
        if self.profile is None:
            return True
        return any(entry.access is Access.DENY for entry in entries_of(self.profile))

    def without_proxy(self) -> str | Mapping[str, Any]:
        """Return the profile as it is written, with no network in place of a proxied one."""
        profile = self.profile
        if not isinstance(profile, ManagedProfile | ExternalProfile):
            return self.written
        if mode_of(profile.network) is not NetworkMode.PROXIED:
            return self.written
        written: dict[str, Any] = msgspec.json.decode(
            encode_profile(structs.replace(profile, network=NetworkMode.RESTRICTED))
        )
        return written

    def widened(self, permissions: Permissions) -> dict[str, Any] | None:
        """Return the profile with more in it, as it is written in JSON; None where it is not known."""
        profile = self.profile
        if isinstance(profile, ExternalProfile):
            if permissions.read or permissions.write:
                return None
        elif not isinstance(profile, ManagedProfile):
            return None
        files = restricted_files(profile)
        if files is not None and isinstance(profile, ManagedProfile):
            added = (
                AccessEntry(path=ExactPath(path=path), access=access)
                for access, paths in ((Access.READ, permissions.read), (Access.WRITE, permissions.write))
                for path in paths
            )
            more = RestrictedFileSystem(
                entries=(*files.entries, *added), glob_scan_max_depth=files.glob_scan_max_depth
            )
            profile = structs.replace(profile, file_system=more)
        if permissions.has_network:
            profile = structs.replace(profile, network=NetworkMode.ENABLED)
        elif permissions.hosts:
            if mode_of(profile.network) is not NetworkMode.PROXIED:
                return None
            known = profile.network if isinstance(profile.network, ProxiedNetwork) else ProxiedNetwork()
            more_hosts = structs.replace(known, allow=(*known.allow, *permissions.hosts))
            profile = structs.replace(profile, network=more_hosts)
        written: dict[str, Any] = msgspec.json.decode(encode_profile(profile))
        return written


def confinement_of(written: str | Mapping[str, Any]) -> Confinement:
    """Return what is known of a profile. Raises InvalidProfile for one that can't be read."""
    if not isinstance(written, str):
        return Confinement(written, profile_of(dict(written), "profile"))
    if written.startswith(":") and written not in BUILT_IN_NAMES:
        raise InvalidProfile(written, f"no such profile; built in are {', '.join(BUILT_IN_NAMES)}")
    return Confinement(written, built_in(written) if written in BUILT_IN_NAMES else None)


def granted_profile(base: str | Mapping[str, Any], grants: Permissions) -> str | dict[str, Any]:
    """Return a profile with what a framework grants on top of it, as it is written in JSON.

    Hosts are let through by a proxy that stops all others. Raises InvalidProfile where the base is a name
    that only the server knows, or grants everything already.
    """
    confinement = confinement_of(base)
    profile = confinement.profile
    if not grants:
        return base if isinstance(base, str) else dict(base)
    if grants.hosts and isinstance(profile, ManagedProfile) and profile.network is NetworkMode.RESTRICTED:
        confinement = Confinement(base, structs.replace(profile, network=ProxiedNetwork()))
    widened = confinement.widened(grants)
    if widened is None:
        raise InvalidProfile(
            str(base), "nothing can be added to it; write the profile out, with the grants in it"
        )
    return widened


class Lack(Struct, frozen=True):
    """The permissions that a set of denials shows to be missing."""

    permissions: Permissions | None
    """The permissions that would have been enough; None if the executor does not know for certain."""
    protected: tuple[Denial, ...] = ()
    """Denials on purpose, which no approval lifts."""


def lack_of(denials: Sequence[Denial]) -> Lack:
    """Return what a command lacked."""
    protected = tuple(denial for denial in denials if _is_protected(denial))
    if protected:
        return Lack(None, protected)
    if not denials or not all(denial.is_certain for denial in denials):
        return Lack(None)
    read: dict[str, None] = {}
    write: dict[str, None] = {}
    hosts: dict[str, None] = {}
    has_network = False
    for denial in denials:
        match denial:
            case Denial(kind=DenialKind.NETWORK, endpoint=Endpoint() as endpoint):
                hosts[str(endpoint)] = None
            case Denial(kind=DenialKind.NETWORK):
                has_network = True
            case Denial(kind=DenialKind.WRITE, target=str(path)) if path.startswith("/"):
                write[_wanted(denial, path)] = None
            case Denial(kind=DenialKind.READ, target=str(path)) if path.startswith("/"):
                read[path] = None
            case _:
                return Lack(None)
    if len(read) + len(write) + len(hosts) > PATHS_LIMIT:
        return Lack(None)
    return Lack(Permissions(tuple(read), tuple(write), has_network, tuple(hosts)))


def _wanted(denial: Denial, path: str) -> str:
    """Return the path to ask for. The directory of a new file is found where the question is made."""
    return path if denial.grant in (None, posixpath.dirname(path)) else denial.grant


def _is_protected(denial: Denial) -> bool:
    rule = denial.rule or ""
    if rule.startswith(OWN):
        return True
    if denial.endpoint is not None:
        # A list that denies it, or an address that no name may lead to.
        return rule != NOT_NAMED
    return rule.endswith(_DENIED) and not rule.startswith(_NOT_GRANTED)


class Reach(Struct, frozen=True):
    """The file access that a profile grants, by path alone; the executor handles links and metadata."""

    table: AccessTable | None
    patterns: tuple[tuple[str, Matcher], ...] = ()

    @property
    def writable(self) -> tuple[str, ...] | None:
        """Return the paths that the profile lets commands write, with all that they hold; None for all."""
        if self.table is None:
            return None
        return tuple(rule.path for rule in self.table.rules if rule.access is Access.WRITE)

    def grants(self, path: str, wanted: Access) -> bool:
        """Return whether the profile lets somebody read or write at a path without links.

        The metadata of a repository is not written, as in a sandbox.
        """
        if self.table is None:
            return True
        rule = self.table.rule_of(path)
        if rule is None or rule.access not in (wanted, Access.WRITE) or self._is_hidden(path):
            return False
        below = path[len(rule.path) :].split("/")
        return wanted is Access.READ or METADATA_NAMES.isdisjoint(below)

    def grants_tree(self, path: str) -> bool:
        """Return whether the profile lets somebody read at a path without links, and denies nothing below it.

        A pattern counts as a denial wherever it may name something below the path.
        """
        if self.table is None:
            return True
        top = path.rstrip("/") + "/"
        return (
            self.grants(path, Access.READ)
            and not any(rule.access is Access.DENY and rule.path.startswith(top) for rule in self.table.rules)
            and not any(
                f"{base.rstrip('/')}/".startswith(top) or top.startswith(f"{base.rstrip('/')}/")
                for base, _ in self.patterns
            )
        )

    def lacks(self, reads: Iterable[str], writes: Iterable[str]) -> Permissions:
        """Return which of the paths the profile does not grant, and does not deny on purpose either."""
        if self.table is None:
            return Permissions()
        return Permissions(
            tuple(path for path in reads if self._is_missing(path, Access.READ)),
            tuple(path for path in writes if self._is_missing(path, Access.WRITE)),
        )

    def _is_missing(self, path: str, wanted: Access) -> bool:
        assert self.table is not None
        rule = self.table.rule_of(path)
        granted = Access.DENY if rule is None else rule.access
        if granted is Access.WRITE or granted is wanted:
            return False
        is_denied = rule is not None and rule.access is Access.DENY
        return not is_denied and not self._is_hidden(path)

    def _is_hidden(self, path: str) -> bool:
        return any(
            path.startswith(base) and matcher.matches(path[len(base) :].lstrip("/"))
            for base, matcher in self.patterns
        )


def reach_of(confinement: Confinement, roots: Sequence[str], tmpdir: str | None) -> Reach:
    """Return what the profile grants; everything where it is not known, for the executor refuses the rest."""
    profile = confinement.profile
    if profile is None or restricted_files(profile) is None:
        return Reach(None)
    grants = resolve(entries_of(profile), Surroundings(project_roots=tuple(roots), tmpdir=tmpdir))
    patterns = tuple((pattern.base, Matcher([pattern.rest])) for pattern in grants.denied_patterns)
    return Reach(AccessTable(grants.rules), patterns)
