"""What is shown in place of the host's files."""

from __future__ import annotations

import pytest

from paddock.sandbox.denial.attempt import Content, Resolution
from paddock.sandbox.denial.mount_overlay import MountOverlay
from paddock.sandbox.denial.resolution import resolve
from paddock.sandbox.host.placeholder import Placeholder, PlaceholderKind
from paddock.sandbox.plan.mount import Bind, EmptyDirectory, Seal, Shortcut, UnreadableFile

RESTRICTED = MountOverlay(
    [
        EmptyDirectory("/", 0o755, "only what is granted is there"),
        Shortcut("/bin", "usr/bin"),
        Bind("/usr", is_writable=False, reason=""),
        Bind("/home/me/w", is_writable=True, reason=""),
        EmptyDirectory("/home/me/w/secret", 0o000, ""),
        EmptyDirectory("/home/me/w/.git", 0o555, ""),
        UnreadableFile("/home/me/w/key", ""),
        UnreadableFile("/home/me/w/absent", ""),
        Seal("/"),
    ],
    [
        Placeholder("/home/me/w/.git", PlaceholderKind.DIRECTORY),
        Placeholder("/home/me/w/absent", PlaceholderKind.FILE),
    ],
)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/", Content.OWN),
        ("/home", Content.OWN),
        ("/home/me", Content.OWN),
        ("/home/you", Content.NOTHING),
        ("/var", Content.NOTHING),
        ("/bin", None),
        ("/usr", None),
        ("/usr/bin/sh", None),
        ("/home/me/w/file", None),
        ("/home/me/w/secret", Content.DIRECTORY),
        ("/home/me/w/secret/file", Content.REFUSED),
        ("/home/me/w/secrets", None),
        ("/home/me/w/key", Content.FILE),
        ("/home/me/w/.git", Content.NOTHING),
        ("/home/me/w/absent", Content.NOTHING),
    ],
)
def test_a_cover_hides_what_is_below_it(path: str, content: Content | None) -> None:
    assert RESTRICTED.at(path) is content


def test_nothing_of_what_is_covered_is_looked_at() -> None:
    overlay = MountOverlay([Bind("/", is_writable=False, reason=""), EmptyDirectory("/etc", 0o000, "")])
    for name in ("hostname", "no-such-file", "mtab/../.."):
        assert resolve(f"/etc/{name}", overlay=overlay).content is Content.REFUSED
    assert resolve("/etc/hostname/../passwd", overlay=overlay) == Resolution("/etc/passwd", Content.REFUSED)
    hidden = MountOverlay([EmptyDirectory("/", 0o755, "")])
    assert resolve("/etc", overlay=hidden) == Resolution("/etc", Content.NOTHING)
    assert resolve("/etc/hostname", overlay=hidden).content is Content.NOWHERE
