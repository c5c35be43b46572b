"""A profile means the same on the wire and in the model."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from paddock.model import profile as model
from paddock.protocol import sandbox as wire
from paddock.protocol.codec import from_wire, write_json
from paddock.protocol.path import HostPath, file_uri, parse_path
from paddock.protocol.permission_profile import profile_from_wire, profile_to_wire

MANAGED = {
    "type": "managed",
    "file_system": {
        "type": "restricted",
        "entries": [
            {"path": {"type": "path", "path": "/a b"}, "access": "write", "missing_path_behavior": "skip"},
            {"path": {"type": "glob_pattern", "pattern": "/w/**/*.env"}, "access": "deny"},
            {
                "path": {"type": "special", "value": {"kind": "project_roots", "subpath": "docs"}},
                "access": "read",
            },
        ],
        "glob_scan_max_depth": 3,
    },
    "network": "loopback",
    "limits": {"memoryBytes": 1, "wallSeconds": 2},
}
OPEN = MANAGED | {"file_system": {"type": "unrestricted"}}
"""Each field has another value than its default."""


def local(path: HostPath) -> str:
    return path.path


def remote(path: str) -> HostPath:
    return parse_path(file_uri(path))


@pytest.mark.parametrize(
    "profile", [MANAGED, OPEN, {"type": "disabled"}, {"type": "external", "network": "enabled"}]
)
def test_nothing_but_the_way_to_write_a_path_changes(profile: dict[str, Any]) -> None:
    written = msgspec.convert(profile, wire.PermissionProfile, dec_hook=from_wire)
    meant = msgspec.convert(profile, model.Profile)

    assert profile_from_wire(written, local) == meant
    assert profile_from_wire(profile_to_wire(meant, remote), local) == meant
    sent = write_json(profile_to_wire(meant, remote))
    assert sent == write_json(meant).replace(b'"/a b"', b'"file:///a%20b"')


@pytest.mark.parametrize("name", ["ExactPath", "AccessEntry", "RestrictedFileSystem", "ManagedProfile"])
def test_both_forms_have_the_same_fields(name: str) -> None:
    assert getattr(wire, name).__struct_fields__ == getattr(model, name).__struct_fields__
