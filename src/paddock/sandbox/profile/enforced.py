"""Finds what a profile leaves to enforce, and reads the parts that only some kinds of profile have. Pure.

Ask here for the limits of a profile, or whether it needs any enforcement.
"""

from __future__ import annotations

from typing import TypeGuard

from msgspec import structs

from paddock.errors import InvalidProfile
from paddock.model.profile import (
    AccessEntry,
    DisabledProfile,
    ExternalProfile,
    Limits,
    ManagedProfile,
    NetworkMode,
    Profile,
    ProxiedNetwork,
    RestrictedFileSystem,
    UnrestrictedFileSystem,
    mode_of,
)

EnforcedProfile = ManagedProfile | ExternalProfile


def is_enforced(profile: Profile) -> TypeGuard[EnforcedProfile]:
    """Return whether the profile leaves anything to enforce."""
    match profile:
        case DisabledProfile():
            return False
        case ManagedProfile(file_system=UnrestrictedFileSystem(), network=network, limits=limits):
            return network is not NetworkMode.ENABLED or limits != Limits()
        case ExternalProfile(network=network):
            return network is not NetworkMode.ENABLED
        case _:
            return True


def is_about_network_alone(profile: EnforcedProfile) -> bool:
    """Return whether somebody else confines files, so that a filter against the network is enough."""
    return isinstance(profile, ExternalProfile) and profile.network is NetworkMode.RESTRICTED


def restricted_files(profile: Profile) -> RestrictedFileSystem | None:
    """Return what the profile says about files; None if it leaves them all as they are."""
    if isinstance(profile, ManagedProfile) and isinstance(profile.file_system, RestrictedFileSystem):
        return profile.file_system
    return None


def entries_of(profile: Profile) -> tuple[AccessEntry, ...]:
    """Return the entries about files; none if files are not restricted."""
    files = restricted_files(profile)
    return () if files is None else files.entries


def network_mode(profile: EnforcedProfile) -> NetworkMode:
    """Return what kind of network a command under the profile gets."""
    return mode_of(profile.network)


def proxied_network(profile: EnforcedProfile) -> ProxiedNetwork | None:
    """Return whom a command under the profile may reach through a proxy; None if it has none."""
    match profile.network:
        case ProxiedNetwork() as network:
            return network
        case NetworkMode.PROXIED:
            return ProxiedNetwork()
    return None


def managed_profile(profile: Profile) -> EnforcedProfile:
    """Return the profile for a command whose only way out is through others' proxies. Raises ValueError."""
    match profile:
        case DisabledProfile():
            raise ValueError("a managed network can't be enforced under a profile that confines nothing")
        case _ if isinstance(profile.network, ProxiedNetwork):
            raise ValueError("a managed network leads to proxies of others, and the profile names hosts")
    return structs.replace(profile, network=NetworkMode.PROXIED)


def limits_of(profile: Profile) -> Limits:
    """Return how much a command under the profile may use."""
    return profile.limits if isinstance(profile, ManagedProfile) else Limits()


def limited(profile: Profile, limits: Limits | None) -> Profile:
    """Return the profile with these limits in place of its own. Raises InvalidProfile."""
    if limits is None:
        return profile
    match profile:
        case ExternalProfile():
            raise InvalidProfile(
                "sandbox", "something outside Paddock enforces it, and does not know the limits"
            )
        case DisabledProfile():
            profile = ManagedProfile(file_system=UnrestrictedFileSystem(), network=NetworkMode.ENABLED)
    given = {name: value for name, value in structs.asdict(limits).items() if value is not None}
    return structs.replace(profile, limits=structs.replace(profile.limits, **given))
