"""Confines a call: the server's profile, narrowed by what its client wants. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from paddock.agent.permission import confinement_of
from paddock.errors import CallRejected, InvalidProfile
from paddock.mcp_server.path_lookup import PATHS_LIMIT, Location
from paddock.mcp_server.profile_meet import Bounds, meet, refuse_unknown_grants
from paddock.mcp_server.sandbox_state import SandboxState
from paddock.model.profile import DisabledProfile, Profile
from paddock.sandbox.profile.access import SLASH_TMP
from paddock.sandbox.profile.codec import encode_profile
from paddock.sandbox.profile.enforced import is_enforced, restricted_files
from paddock.sandbox.profile.path import ROOT, clean


class CallConfinement(Struct, frozen=True):
    """A profile, its workspace, and where commands run unless they say otherwise."""

    profile: str | Mapping[str, Any]
    roots: tuple[str, ...]
    cwd: str
    is_restricted: bool
    distrusted: tuple[str, ...] = ()
    """What calls that are narrowed otherwise, or not at all, may write: no rule lets a program out from
    there, though this call may only read it."""

    @property
    def key(self) -> bytes:
        """Return a key that is equal for equal confinements."""
        return msgspec.json.encode(
            (self.profile, self.roots, self.cwd, self.distrusted), order="deterministic"
        )


def paths_of(
    profile: str | Mapping[str, Any], roots: tuple[str, ...], state: SandboxState | None, tmpdir: str | None
) -> tuple[str, ...]:
    """Return the paths to look up before narrowing the profile. Raises InvalidProfile."""
    cap = confinement_of(profile).profile
    if cap is None or restricted_files(cap) is None or state is None:
        return ()
    wanted = Bounds(state.profile, (state.cwd,), tmpdir)
    paths = tuple(dict.fromkeys((*Bounds(cap, roots, tmpdir).paths, *wanted.paths, clean(state.cwd))))
    if len(paths) > PATHS_LIMIT:
        raise InvalidProfile(
            "sandbox state", f"it and the server's profile name more than {PATHS_LIMIT} paths"
        )
    return paths


def written_paths_of(state: SandboxState, tmpdir: str | None) -> tuple[str, ...]:
    """Return the paths that a client wants to write. Raises InvalidProfile."""
    return Bounds(state.profile, (state.cwd,), tmpdir).all_writable


def narrow_for_call(
    profile: str | Mapping[str, Any],
    roots: tuple[str, ...],
    state: SandboxState | None,
    tmpdir: str | None,
    found: Mapping[str, Location],
) -> CallConfinement:
    """Return the confinement of a call; `found` says where the paths of `paths_of` lead.

    Raises CallRejected or InvalidProfile where a profile can't be narrowed.
    """
    cap = confinement_of(profile)
    if state is None or isinstance(state.profile, DisabledProfile):
        return CallConfinement(profile, roots, roots[0], cap.is_restricted)
    if cap.profile is None:
        raise CallRejected(
            "the client wants a sandbox of its own, and only the server knows what the profile "
            f"{profile!r} is; give `paddock mcp` the profile itself, as a file or JSON"
        )
    most = Bounds(cap.profile, roots, tmpdir, found)
    wanted = Bounds(state.profile, (state.cwd,), tmpdir, found)
    if restricted_files(cap.profile) is None:
        narrowed = meet(most, wanted)
        return CallConfinement(
            _written(narrowed),
            (state.cwd,),
            state.cwd,
            is_enforced(narrowed),
            _written_by_others(cap.profile, clean(state.cwd), tmpdir),
        )
    refuse_unknown_grants(wanted)
    narrowed = meet(most, wanted)
    # Everything that some client may write counts as a root: a link in there may come from an earlier
    # command, and no rule may lead through one. A plan looks at temporary directories that way anyway.
    watched = tuple(dict.fromkeys((*roots, *most.writable)))
    cwd = wanted.location(clean(state.cwd)).path
    return CallConfinement(_written(narrowed), watched, cwd, is_enforced(narrowed), most.all_writable)


def _written_by_others(cap: Profile, cwd: str, tmpdir: str | None) -> tuple[str, ...]:
    """Return what other calls may write under a cap that restricts no files.

    A cap that confines something else does not let its own calls out of the sandbox: they can write every
    program. Without a sandbox, calls that are not narrowed need not get out. Those that are write their
    workspace and the temporary directories.
    """
    if is_enforced(cap):
        return (ROOT,)
    own = (tmpdir,) if tmpdir is not None and tmpdir.startswith("/") else ()
    return tuple(dict.fromkeys((cwd, SLASH_TMP, *own)))


def _written(profile: Profile) -> Mapping[str, Any]:
    written: dict[str, Any] = msgspec.json.decode(encode_profile(profile))
    return written
