"""What the audit log tells of sandboxes, with the real kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paddock.network import name_lookup
from paddock.network.address import Address
from tests.sandbox.profiles import READ_ONLY
from tests.unit.audit.logs import segments
from tests.wire import WireError, attach, served, session, shell


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


async def test_verdicts_about_executed_programs_are_events_and_records(tmp_path: Path) -> None:
    def rule(action: str, name: str, line: int) -> dict[str, Any]:
        return {"pattern": [[name]], "action": action, "path": "/r.rules", "line": line}

    wanted = {"rules": [rule("forbidden", "uname", 1), rule("allow", "id", 2)], "onPrompt": "deny"}
    async with served(audit_log=str(tmp_path / "log")) as server:
        client = attach(server)
        await client.initialize(capabilities={"extensions": True, "notifications": ["process/exec"]})
        script = shell("uname; id -u; true")
        await client.start("p", *script, sandbox=READ_ONLY, intercept=wanted)
        events = [(await client.event("p", "process/exec"))["execution"] for _ in range(2)]
        exited = await client.event("p", "process/exited")
        silent = attach(server)
        await silent.initialize(capabilities={"extensions": True})
        await silent.start("p", *script, sandbox=READ_ONLY, intercept=wanted)
        await silent.event("p", "process/closed")
        assert not [message for message in silent.unread if message.get("method") == "process/exec"]
    assert [(event["program"], event["verdict"]) for event in events] == [
        ("/usr/bin/uname", "deny"),
        ("/usr/bin/id", "run"),
    ]
    assert events[0]["rule"] == {"path": "/r.rules", "line": 1}
    assert "allow_escalation" in events[1]["notEscalated"]
    assert exited["execs"]["entries"] == events
    assert (exited["execs"]["total"], exited["execs"]["deny"]) == (2, 1)
    records = told(tmp_path / "log", "exec")
    assert [(each["program"], each["verdict"], each["rule"]) for each in records[:2]] == [
        ("/usr/bin/uname", "deny", "/r.rules:1"),
        ("/usr/bin/id", "run", "/r.rules:2"),
    ]
    assert "allow_escalation" in records[1]["not_escalated"]


async def test_record_of_a_program_outside_has_all_that_it_was_told(tmp_path: Path) -> None:
    rule = {"pattern": [["printf"]], "action": "allow", "path": "/r.rules", "line": 1}
    words = ["x" * 2000, *map(str, range(40)), "hidden"]
    async with session(audit_log=str(tmp_path / "log"), allow_escalation=True) as client:
        script = shell(f"/usr/bin/printf %s {' '.join(words)}; true")
        await client.start("p", *script, sandbox=READ_ONLY, intercept={"rules": [rule], "onPrompt": "deny"})
        await client.finish("p")
    [record] = told(tmp_path / "log", "exec")
    assert (record["verdict"], record["argv"][1:]) == ("escalate", ["%s", *words])


@pytest.mark.parametrize("is_audited", [True, False])
async def test_what_could_not_be_let_out_is_told_as_denied(tmp_path: Path, is_audited: bool) -> None:
    rule = {"pattern": [["id"]], "action": "allow", "path": "/r.rules", "line": 1}
    elsewhere, too_many = "cd /proc; id; cd /", "for i in {10..270}; do eval exec $i'<&0'; done; id"
    script = ("bash", "-c", f"ulimit -S -n 400; id; {elsewhere}; {too_many}")
    log = {"audit_log": str(tmp_path / "log")} if is_audited else {}
    async with served(allow_escalation=True, **log) as server:
        client = attach(server)
        await client.initialize(capabilities={"extensions": True, "notifications": ["process/exec"]})
        await client.start("p", *script, sandbox=READ_ONLY, intercept={"rules": [rule], "onPrompt": "deny"})
        events = [(await client.event("p", "process/exec"))["execution"] for _ in range(3)]
        exited = await client.event("p", "process/exited")
    assert [event["verdict"] for event in events] == ["escalate", "deny", "deny"]
    assert "/proc on the host is a different file" in events[1]["reason"]
    assert "more than 240 descriptors" in events[2]["reason"]
    assert exited["execs"]["entries"] == events
    assert (exited["execs"]["escalate"], exited["execs"]["deny"]) == (1, 2)
    if is_audited:
        # The log had the verdict before anything could happen; what it says last of an execution is what did.
        records = {each["exec_id"]: each for each in told(tmp_path / "log", "exec")}
        assert [each["verdict"] for each in records.values()] == ["escalate", "deny", "deny"]


async def test_decisions_about_hosts_are_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, port: int) -> list[Address]:
        raise OSError("no such name")

    monkeypatch.setattr(name_lookup, "look_up_by_system", look_up)
    network = {"type": "proxied", "allow": ["a.test"]}
    profile = {"type": "managed", "file_system": {"type": "unrestricted"}, "network": network}
    sandbox = {"permissions": profile, "windowsSandboxLevel": "disabled"}
    async with session(audit_log=str(tmp_path / "log")) as client:
        await client.start("p", "curl", "-s", "http://a.test/", "http://b.test:8080/", sandbox=sandbox)
        await client.finish("p")
    records = told(tmp_path / "log", "network")
    kept = ("host", "port", "protocol", "decision", "rule")
    assert [tuple(record[name] for name in kept) for record in records] == [
        ("a.test", 80, "http", "allow", "network.allow = a.test"),
        ("b.test", 8080, "http", "forbidden", "network.allow does not name it"),
    ]
