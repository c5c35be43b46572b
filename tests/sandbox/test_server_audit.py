"""What the audit log tells of sandboxes, with the real kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.profiles import READ_ONLY
from tests.unit.audit.logs import segments
from tests.wire import WireError, session, shell


def told(path: Path, *kinds: str) -> list[dict[str, Any]]:
    lines = b"".join(segment.read_bytes() for segment in segments(path)).splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] in kinds]


async def test_a_start_tells_what_confines_it(tmp_path: Path) -> None:
    async with session(audit_log=str(tmp_path / "log")) as client:
        await client.start("named", "/bin/true", sandbox={"profile": ":read-only"})
        await client.start("written", "/bin/true", sandbox=READ_ONLY)
        await client.start("free", "/bin/true")
        for name in ("named", "written", "free"):
            await client.finish(name)
    named, written, free = told(tmp_path / "log", "start")
    assert named["sandbox"].items() >= {"type": "linuxSeccomp", "profile": ":read-only"}.items()
    assert named["sandbox"]["level"] in ("full", "partial")
    assert written["sandbox"]["profile"].startswith("sha256:")
    assert "sandbox" not in free


async def test_a_start_that_is_refused_tells_what_it_wanted(tmp_path: Path) -> None:
    permissions = {"dev": {"filesystem": {":minimal": "read"}}}
    async with session(audit_log=str(tmp_path / "log"), permissions=permissions, max_profile="dev") as client:
        with pytest.raises(WireError, match="max_profile"):
            await client.start("p", "/bin/true", sandbox=READ_ONLY)
    start, failed = told(tmp_path / "log", "start", "start-failed")
    assert start["sandbox"]["profile"].startswith("sha256:")
    assert "max_profile" in failed["reason"]


async def test_an_exit_tells_what_ended_it_and_whether_the_sandbox_denied_something(tmp_path: Path) -> None:
    async with session(audit_log=str(tmp_path / "log")) as client:
        await client.start("denied", *shell(f"echo x > {tmp_path}/x"), sandbox=READ_ONLY)
        await client.finish("denied")
        await client.start("well", "/bin/true", sandbox=READ_ONLY)
        await client.finish("well")
    exits = {record["process"]: record for record in told(tmp_path / "log", "exit")}
    assert exits["denied"].items() >= {"exit_code": 2, "cause": "exit", "sandbox_denied": True}.items()
    assert "sandbox_denied" not in exits["well"]
