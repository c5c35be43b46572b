"""The sandbox that a client wants for its calls, in the two shapes in which Codex says it. Pure.

    codex/sandbox-state/update      a request, which holds for the calls after it
    codex/sandbox-state-meta        an entry of a call's `_meta`, which holds for that call

Anything that is not understood is an error: a sandbox that is requested and not made would be none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from paddock.errors import InvalidProfile
from paddock.model.profile import Profile
from paddock.sandbox.profile.codec import profile_of

UPDATE_METHOD: Final = "codex/sandbox-state/update"
UPDATE_CAPABILITY: Final = "codex/sandbox-state"
META_KEY: Final = "codex/sandbox-state-meta"

CAPABILITIES: Final[dict[str, dict[str, Any]]] = {UPDATE_CAPABILITY: {"version": "1.0.0"}, META_KEY: {}}
"""The capabilities announced to a client, so that it sends either shape."""


class SandboxState(Struct, frozen=True):
    """The sandbox that a client wants, before the server's own profile caps it."""

    profile: Profile
    cwd: str
    """The client's workspace."""


def parse_state(value: Mapping[str, Any]) -> SandboxState:
    """Read either shape. Raises InvalidProfile."""
    cwd = value.get("sandboxCwd")
    if not isinstance(cwd, str):
        raise InvalidProfile("sandboxCwd", "it is missing")
    path = cwd.removeprefix("file://")
    if not path.startswith("/") or "\0" in path:
        raise InvalidProfile("sandboxCwd", f"{cwd!r} is not an absolute path")
    for key in ("permissionProfile", "sandboxPolicy"):
        written = value.get(key)
        if written is not None:
            if not isinstance(written, dict):
                raise InvalidProfile(key, "it is not an object")
            return SandboxState(profile_of(written, key), path)
    raise InvalidProfile("sandbox state", "it has neither permissionProfile nor sandboxPolicy")
