"""Commands that a server starts in a sandbox, over the wire, with the real kernel."""

from __future__ import annotations

import base64
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from paddock.sandbox.enforce import bwrap
from paddock.sandbox.host import probe
from paddock.sandbox.plan import landlock
from paddock.sandbox.plan.plan import Plan
from paddock.sandbox.plan_attempts import PLAN_LIMIT
from paddock.sandbox.planner import Planner
from paddock.server import explanation, judgement
from tests.processes import children_of, command_of, descendants_of
from tests.sandbox.identity import PYTHON
from tests.sandbox.profiles import MINIMAL, PROJECT_ROOTS, READ_ONLY, ROOT, entry, sandbox, workspace_write
from tests.wire import WireClient, WireError, encode, session, shell, start_params

Json = dict[str, Any]

pytestmark = pytest.mark.usefixtures("way")


@pytest.fixture(name="workspace")
def workspace_of_the_test(ground: Path) -> Path:
    """Outside /tmp, which several profiles let everybody write."""
    workspace = ground / f"server-{os.urandom(4).hex()}"
    workspace.mkdir()
    return workspace


async def denied(client: WireClient, process_id: str) -> set[bool]:
    """What the server says of a process that has ended, wherever it says it."""
    names = {"processId": process_id}
    answers = [await client.call(f"process/{verb}", names) for verb in ("read", "wait", "snapshot")]
    return {answer["sandboxDenied"] for answer in answers}


# --- confinement ------------------------------------------------------------


async def test_a_command_writes_where_its_profile_lets_it_and_nowhere_else(workspace: Path) -> None:
    outside = workspace.parent / f"{workspace.name}-outside"
    script = f"echo in > {workspace}/in; echo out > {outside}"
    async with session() as client:
        answer = await client.start("p", *shell(script), sandbox=workspace_write(workspace))
        assert (answer["sandboxType"], answer["sandboxEnforcement"]) in [
            ("linuxSeccomp", "full"),
            ("linuxSeccomp", "partial"),
        ]
        confined = await client.finish("p")
        assert confined.exit_code != 0
        assert b"Read-only file system" in confined.streams["stderr"]
        assert ((workspace / "in").read_text(), outside.exists()) == ("in\n", False)
        await client.start("q", *shell(script))
        assert (await client.finish("q")).exit_code == 0
    assert outside.read_text() == "out\n"


async def test_a_client_of_the_reference_sees_no_more_than_the_type_of_the_sandbox() -> None:
    async with session(extensions=False) as client:
        assert await client.start("p", "/bin/true", sandbox=READ_ONLY) == {
            "processId": "p",
            "sandboxType": "linuxSeccomp",
        }
        assert (await client.finish("p")).exit_code == 0


async def test_a_profile_that_asks_for_nothing_confines_nothing(workspace: Path) -> None:
    nothing = {"permissions": {"type": "disabled"}, "windowsSandboxLevel": "disabled"}
    async with session() as client:
        answer = await client.start("p", *shell(f"echo x > {workspace}/x; exit 1"), sandbox=nothing)
        assert answer["sandboxType"] == "none"
        await client.finish("p")
        assert await denied(client, "p") == {False}
    assert (workspace / "x").exists()


@pytest.mark.parametrize(("policy", "status"), [("read-only", 2), ("workspace-write", 0)])
async def test_legacy_policies_mean_what_they_always_meant(workspace: Path, policy: str, status: int) -> None:
    legacy = {"policy": {"type": policy}, "cwd": workspace.as_uri()}
    async with session() as client:
        await client.start("p", *shell("echo x > x"), cwd=str(workspace), sandbox=legacy)
        assert (await client.finish("p")).exit_code == status
    assert (workspace / "x").exists() == (status == 0)


async def test_places_that_were_held_for_a_command_are_gone_when_its_exit_is_told(workspace: Path) -> None:
    inside = sandbox(
        entry(ROOT, "read"),
        entry(PROJECT_ROOTS, "write"),
        cwd=workspace.as_uri(),
        workspaceRoots=[workspace.as_uri()],
    )
    async with session() as client:
        await client.start("p", *shell("ls -A; mkdir .git"), cwd=str(workspace), sandbox=inside)
        assert (await client.event("p", "process/exited"))["exitCode"] != 0
        assert os.listdir(workspace) == []


async def test_the_secrets_of_the_server_are_hidden_from_its_commands(workspace: Path) -> None:
    secret = workspace / "token"
    secret.write_text("hunter2hunter2hunter2hunter2hunter2")
    async with session(ws_auth="capability-token", ws_token_file=str(secret)) as client:
        await client.start("p", "/bin/cat", str(secret), sandbox=READ_ONLY)
        confined = await client.finish("p")
    assert (confined.exit_code, confined.streams.get("stdout")) == (1, None)


# --- what can't be enforced -------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (sandbox(entry(PROJECT_ROOTS, "write")), "requires cwd"),
        (sandbox(entry(ROOT, "read"), workspaceRoots=["file:///nonexistent"]), "does not exist"),
        ({"policy": {"type": "no-such"}}, "no-such"),
        ({"policy": {"type": "read-only", "surprise": 1}}, "surprise"),
        ({"policy": {"type": "read-only"}} | READ_ONLY, "one or the other"),
    ],
)
async def test_what_can_not_be_enforced_is_refused_and_nothing_starts(wanted: Json, reason: str) -> None:
    async with session() as client:
        with pytest.raises(WireError, match=reason) as refusal:
            await client.start("p", "/bin/true", sandbox=wanted)
        assert refusal.value.code == -32602
        assert (await client.call("process/list"))["processes"] == []


async def test_a_host_without_sandboxes_runs_nothing_that_asks_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "enforcement", lambda _: None)
    async with session() as client:
        with pytest.raises(WireError, match="sandbox intent cannot be enforced on this executor") as refusal:
            await client.start("p", "/bin/true", sandbox=READ_ONLY)
        assert refusal.value.code == -32602
        await client.start("p", "/bin/true")
        assert (await client.finish("p")).exit_code == 0


async def test_a_sandbox_that_fails_while_it_is_made_is_an_error_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    as_planned, plan = bwrap.options, Planner.plan
    mistake = ["--bind", "/nonexistent", "/mnt"]
    plans = []

    def counted(*profile: Any, **more: Any) -> Plan:
        plans.append(plan(*profile, **more))
        return plans[-1]

    monkeypatch.setattr(bwrap, "options", lambda *plan, **more: [*as_planned(*plan, **more), *mistake])
    monkeypatch.setattr(Planner, "plan", counted)
    async with session() as client:
        await client.start("p", "/bin/true")
        await client.finish("p")
        before = os.listdir("/proc/self/fd")
        for _ in range(3):
            with pytest.raises(
                WireError, match=r"the sandbox could not be made: bwrap: .*nonexist"
            ) as refusal:
                await client.start("q", *shell("echo ran"), sandbox=READ_ONLY)
            assert refusal.value.code == -32602
        # The spare one that can't be made either is not tried again.
        assert len(plans) == 3 * PLAN_LIMIT + (way == "warm")
        # And the table of mounts stays open.
        assert len(os.listdir("/proc/self/fd")) == len(before) + (way == "warm")
        assert [known["processId"] for known in (await client.call("process/list"))["processes"]] == ["p"]


async def test_a_sandbox_is_planned_anew_when_files_have_vanished_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    as_planned = bwrap.options
    mistakes = [["--bind", "/vanished", "/mnt"]]

    def options(*plan: Any, **more: Any) -> list[str]:
        return [*as_planned(*plan, **more), *(mistakes.pop() if mistakes else [])]

    monkeypatch.setattr(bwrap, "options", options)
    async with session() as client:
        start = client.request(
            "process/start", start_params("p", "/bin/cat", pipeStdin=True, sandbox=READ_ONLY)
        )
        await client.call("process/write", {"processId": "p", "chunk": encode(b"early")})
        await client.call("process/closeStdin", {"processId": "p"})
        assert (await client.answer(start))["sandboxType"] == "linuxSeccomp"
        assert (await client.finish("p")).streams == {"stdout": b"early"}
    assert not mistakes


async def test_a_directory_that_is_not_there_is_told_of_the_command() -> None:
    async with session() as client:
        with pytest.raises(WireError, match="can't start '/bin/true' in '/nonexistent'") as refusal:
            await client.start("p", "/bin/true", cwd="/nonexistent", sandbox=READ_ONLY)
        assert refusal.value.code == -32603


async def test_a_prepared_start_is_not_confined_but_refused() -> None:
    prepared = {"argv": ["/bin/true"], "cwd": "/", "env": {}}
    start = {"processId": "p", "tty": False, "prepared": prepared, "sandbox": READ_ONLY}
    async with session(allow_prepared_exec=True) as client:
        with pytest.raises(WireError, match="prepared start can't be confined"):
            await client.call("process/start", start)


async def test_a_server_that_requires_a_sandbox_runs_what_has_one() -> None:
    async with session(require_sandbox=True) as client:
        await client.start("p", "/bin/true", sandbox=READ_ONLY)
        assert (await client.finish("p")).exit_code == 0


@pytest.fixture(name="landlocked")
def kernel_with_landlock() -> None:
    if probe.host().landlock_abi < landlock.ALONE_ABI:
        pytest.skip("the kernel has no Landlock that is enough alone")


@pytest.mark.usefixtures("landlocked")
async def test_a_server_told_to_use_landlock_alone_says_what_is_reached(workspace: Path) -> None:
    script = f"echo x > {workspace}/x"
    async with session(use_legacy_landlock=True) as client:
        answer = await client.start("p", *shell(script), sandbox=READ_ONLY)
        assert answer["sandboxEnforcement"] == "partial"
        assert (await client.finish("p")).exit_code != 0
        assert not (workspace / "x").exists()
        await client.start("q", *shell(script))
        assert (await client.finish("q")).exit_code == 0
    assert (workspace / "x").exists()


@pytest.mark.usefixtures("landlocked")
async def test_a_server_told_to_use_landlock_alone_refuses_the_rest_with_the_reason(workspace: Path) -> None:
    (workspace / "file").write_text("text")
    async with session(use_legacy_landlock=True) as client:
        with pytest.raises(WireError, match="protects paths below writable ones") as refusal:
            await client.start("p", "/bin/true", sandbox=workspace_write(workspace))
        assert refusal.value.code == -32602
        reading = {"path": str(workspace / "file"), "sandbox": READ_ONLY}
        with pytest.raises(WireError, match="no sandbox that others can enter"):
            await client.call("fs/readFile", reading)


# --- life -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (shell("exit 42"), 42),
        (shell("kill -SEGV $$"), 139),
        (("no-such-program",), 127),
        (("/etc/passwd",), 126),
    ],
)
async def test_the_exit_code_is_that_of_the_command(argv: tuple[str, ...], status: int) -> None:
    async with session() as client:
        await client.start("p", *argv, sandbox=READ_ONLY)
        assert (await client.finish("p")).exit_code == status


async def test_a_command_is_told_its_other_name_and_has_only_its_streams_open() -> None:
    script = 'echo "$0"; for fd in 3 4 5 6 7 8 9; do (: <&$fd) 2>/dev/null && echo $fd; done; exit 0'
    async with session() as client:
        await client.start("p", "/bin/bash", "-c", script, arg0="other", sandbox=READ_ONLY)
        assert (await client.finish("p")).streams == {"stdout": b"other\n"}


@pytest.mark.parametrize("is_terminal", [False, True])
async def test_signals_reach_the_command_and_it_decides(is_terminal: bool) -> None:
    script = "trap 'exit 9' INT; trap 'exit 8' TERM; echo ready; while :; do sleep 0.01; done"
    async with session() as client:
        for process_id, status in (("signal", 9), ("terminate", 8), ("kill", 137)):
            await client.start(process_id, *shell(script), sandbox=READ_ONLY, tty=is_terminal)
            await client.event(process_id, "process/output")
            if process_id == "signal":
                await client.call("process/signal", {"processId": process_id, "signal": "interrupt"})
            elif process_id == "terminate":
                mode = {"graceful": {"timeoutMs": 60_000}}
                await client.call("process/terminate", {"processId": process_id, "mode": mode})
            else:
                await client.call("process/terminate", {"processId": process_id})
            exited = await client.event(process_id, "process/exited")
            assert exited["exitCode"] == status


async def test_control_c_on_its_terminal_interrupts_the_command_and_not_the_shell() -> None:
    async with session() as client:
        prompt = {"PATH": "/usr/bin:/bin", "PS1": "at your service> "}
        await client.start("p", "/bin/bash", "--norc", "-i", tty=True, env=prompt, sandbox=READ_ONLY)
        # The command itself says that it has begun: by then it is in the foreground, and the shell is not.
        begin = b"sh -c \"echo be''gun; exec sleep 1000\"\n"
        await client.call("process/write", {"processId": "p", "chunk": encode(begin)})
        while b"begun\r\n" not in await _terminal(client):
            pass
        await client.call("process/write", {"processId": "p", "chunk": encode(b"\x03")})
        while (await _terminal(client)).count(b"at your service> ") < 2:
            pass
        await client.call("process/write", {"processId": "p", "chunk": encode(b"exit 5\n")})
        assert (await client.event("p", "process/exited"))["exitCode"] == 5


async def _terminal(client: WireClient) -> bytes:
    await client.event("p", "process/output")
    return base64.b64decode((await client.call("process/snapshot", {"processId": "p"}))["terminal"])


async def test_a_signal_reaches_a_command_that_has_made_a_group_of_its_own() -> None:
    program = (
        "import os, signal, sys; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7));"
        "os.setpgid(0, 0); print('ready', flush=True); signal.pause()"
    )
    async with session() as client:
        await client.start("p", PYTHON, "-c", program, sandbox=READ_ONLY)
        await client.event("p", "process/output")
        await client.call("process/signal", {"processId": "p", "signal": "USR1"})
        assert (await client.event("p", "process/exited"))["exitCode"] == 7


async def test_signal_that_stops_a_job_reaches_a_command_however_often_it_is_sent() -> None:
    program = (
        "import os, signal; signal.signal(signal.SIGTTIN, lambda *_: os.write(1, b'x'));"
        "os.setpgid(0, 0); print('ready', flush=True)\nwhile True: signal.pause()"
    )
    async with session() as client:
        await client.start("p", PYTHON, "-c", program, sandbox=READ_ONLY)
        await client.event("p", "process/output")
        for _ in range(3):
            await client.call("process/signal", {"processId": "p", "signal": "TTIN"})
            # Nothing else stops the command, and nobody has to read that it has stopped.
            await client.event("p", "process/output")
        await client.call("process/terminate", {"processId": "p"})
        await client.event("p", "process/exited")


async def test_what_a_command_leaves_behind_ends_with_it() -> None:
    async with session() as client:
        await client.start("p", *shell("sleep 1000 & setsid -f sleep 1000; exit 0"), sandbox=READ_ONLY)
        # The stream that both hold is at its end.
        assert (await client.finish("p")).exit_code == 0


async def test_no_signal_behind_the_exit_keeps_the_sandbox_of_a_command() -> None:
    async with session() as client:
        for number in range(20):
            process_id = f"p{number}"
            await client.start(process_id, "/bin/true", sandbox=READ_ONLY)
            await client.event(process_id, "process/exited")
            await client.call("process/signal", {"processId": process_id, "signal": "STOP"})
            # What made the sandbox has the streams too, and would never end.
            await client.event(process_id, "process/closed")


async def test_the_time_limit_of_a_profile_ends_the_command() -> None:
    limited = sandbox(entry(ROOT, "read"), limits={"wallSeconds": 1})
    async with session() as client:
        await client.start("p", "/bin/sleep", "1000", sandbox=limited)
        assert (await client.finish("p")).exit_code == 124


# --- denials ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "is_denied"),
    [
        ("echo x > /etc/x; exit 1", True),
        ("echo Permission Denied; exit 3", True),
        ("printf 'oper' ; printf 'ation not permitted'; exit 3", True),
        ("echo permission denied; exit 0", False),
        ("exit 7", False),
        ("kill -SYS $$", True),
    ],
)
async def test_a_denial_is_told_wherever_the_end_of_a_process_is(script: str, is_denied: bool) -> None:
    async with session() as client:
        await client.start("p", *shell(script), sandbox=READ_ONLY)
        assert (await client.event("p", "process/exited"))["sandboxDenied"] is is_denied
        assert await denied(client, "p") == {is_denied}


WRITE_TO_ETC = {"kind": "write", "target": "/etc/x", "rule": "root = read", "certain": True, "grant": "/etc"}


async def test_what_was_denied_is_told_wherever_the_end_of_a_process_is() -> None:
    async with session() as client:
        await client.start("p", *shell("echo x > /etc/x"), sandbox=READ_ONLY)
        told = [await client.event("p", "process/exited")]
        told += [
            await client.call(f"process/{verb}", {"processId": "p"}) for verb in ("read", "wait", "snapshot")
        ]
        assert [answer["denials"] for answer in told] == [[WRITE_TO_ETC]] * 4


async def test_a_client_of_the_reference_learns_only_that_something_was_denied() -> None:
    async with session(extensions=False) as client:
        await client.start("p", *shell("echo x > /etc/x"), sandbox=READ_ONLY)
        exited = await client.event("p", "process/exited")
        assert set(exited) == {"processId", "seq", "exitCode", "sandboxDenied"}
        read = await client.call("process/read", {"processId": "p"})
        assert (read["sandboxDenied"], "denials" in read) == (True, False)


async def test_a_failure_that_the_profile_allows_is_suspected_and_no_denial(workspace: Path) -> None:
    (workspace / "plain").touch(0o644)
    async with session() as client:
        await client.start("p", *shell("./plain"), cwd=str(workspace), sandbox=workspace_write(workspace))
        exited = await client.event("p", "process/exited")
        assert (exited["exitCode"], exited["sandboxDenied"], "denials" in exited) == (126, True, False)


async def test_a_command_that_ended_well_was_denied_what_its_trace_shows() -> None:
    script = "echo x > /etc/x; exit 0"
    async with session() as client:
        for process_id, is_traced in (("p", False), ("q", True)):
            await client.start(process_id, *shell(script), sandbox=READ_ONLY | {"trace": is_traced})
            exited = await client.event(process_id, "process/exited")
            assert exited["sandboxDenied"] is False
            assert exited.get("denials", []) == ([WRITE_TO_ETC] if is_traced else [])


@pytest.mark.parametrize("is_traced", [False, True])
async def test_what_is_only_printed_is_not_certain(workspace: Path, is_traced: bool) -> None:
    (workspace / "log").write_text("touch: cannot touch '/etc/x': Read-only file system\n")
    async with session() as client:
        await client.start(
            "p", *shell(f"cat {workspace}/log >&2; exit 1"), sandbox=READ_ONLY | {"trace": is_traced}
        )
        denials = (await client.event("p", "process/exited"))["denials"]
        assert denials == [WRITE_TO_ETC | {"certain": False}]


async def test_no_path_of_the_servers_own_is_told(workspace: Path) -> None:
    secret = workspace / "token"
    secret.write_text("hunter2hunter2hunter2hunter2hunter2")
    async with session(ws_auth="capability-token", ws_token_file=str(secret)) as client:
        for process_id, is_traced in (("p", False), ("q", True)):
            await client.start(process_id, "/bin/cat", str(secret), sandbox=READ_ONLY | {"trace": is_traced})
            exited = await client.event(process_id, "process/exited")
            assert (exited["sandboxDenied"], exited.get("denials")) == (True, None)


async def test_a_file_system_that_does_not_answer_keeps_no_exit_back(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(judgement, "EXPLANATION_TIMEOUT_S", 0)
    monkeypatch.setattr(explanation, "resolutions", lambda _: released.wait())
    async with session() as client:
        await client.start("p", *shell("echo x > /etc/x"), sandbox=READ_ONLY)
        exited = await client.event("p", "process/exited")
        released.set()
    assert (exited["sandboxDenied"], "denials" in exited) == (True, False)


async def test_no_command_without_a_sandbox_is_denied_anything() -> None:
    async with session() as client:
        await client.start("p", *shell("echo Permission denied; exit 1"))
        assert (await client.event("p", "process/exited"))["sandboxDenied"] is False
        assert await denied(client, "p") == {False}


async def test_output_before_a_denied_exit_has_lower_numbers_than_it() -> None:
    async with session() as client:
        await client.start("p", *shell("echo out; echo permission denied >&2; exit 1"), sandbox=READ_ONLY)
        assert (await client.finish("p")).methods[-2:] == ["process/exited", "process/closed"]


def own_sandbox(workspace: Path, number: int, count: int) -> tuple[Json, set[int]]:
    """A profile that lets a command write its own directory, in one of three ways, and what it shows."""
    own, next_ = workspace / str(number), (number + 1) % count
    everything = set(range(count))
    match number % 3:
        case 0:
            return sandbox(entry(MINIMAL, "read"), entry(own, "write")), {number}
        case 1:
            hidden = entry(workspace / str(next_), "deny")
            return sandbox(entry(ROOT, "read"), entry(own, "write"), hidden), everything - {next_}
        case _:
            return workspace_write(own), everything


async def test_a_hundred_commands_at_once_see_only_what_is_theirs(workspace: Path) -> None:
    count = 100
    names = [str(number) for number in range(count)]
    for name in names:
        (workspace / name).mkdir()
        (workspace / name / "secret").write_text(f"{name}\n")
    # Each reads and writes whatever it can, and then waits, so that all are there at the same time.
    script = f"cd {workspace}; cat */secret; for d in *; do echo $1 > $d/made; done; echo done; read line"
    wanted = [own_sandbox(workspace, number, count) for number in range(count)]
    async with session() as client:
        starts = [
            client.request(
                "process/start",
                start_params(name, *shell(script), "sh", name, pipeStdin=True, sandbox=own),
            )
            for name, (own, _) in zip(names, wanted, strict=True)
        ]
        for start in starts:
            await client.answer(start)
        seen = [await _lines_until(client, name, "done") for name in names]
        running = (await client.call("process/list"))["processes"]
        assert sum(process["running"] for process in running) == count
        for name in names:
            client.request("process/closeStdin", {"processId": name})
        for name in names:
            await client.event(name, "process/exited")
    for number, (_, shown) in enumerate(wanted):
        assert seen[number] == {str(other) for other in shown}
        assert (workspace / str(number) / "made").read_text() == f"{number}\n"


async def _lines_until(client: WireClient, process_id: str, end: str) -> set[str]:
    """The lines that a process writes to stdout before this one."""
    text = b""
    while not text.endswith(f"{end}\n".encode()):
        event = await client.event(process_id, "process/output")
        if event["stream"] == "stdout":
            text += base64.b64decode(event["chunk"])
    return set(text.decode().splitlines()) - {end}


# --- why it ended -----------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "limits", "cause"),
    [
        ("exit 3", {}, "exit"),
        ("kill -USR1 $$", {}, "signal"),
        ("while :; do :; done", {"cpuSeconds": 1}, "cpu"),
        ("sleep 1000", {"wallSeconds": 1}, "wall"),
        ("tail /dev/zero", {"memoryBytes": 64 << 20}, "memory"),
        ("dd if=/dev/zero of=/dev/null bs=1G count=1", {"memoryBytes": 64 << 20}, "memory"),
        ("tail /dev/zero; exit 0", {"memoryBytes": 64 << 20}, "exit"),
        ("echo out of memory >&2; exit 1", {}, "exit"),
    ],
)
async def test_the_exit_says_what_ended_the_process_and_what_it_used(
    script: str, limits: Json, cause: str
) -> None:
    limited = sandbox(entry(ROOT, "read"), limits=limits)
    async with session() as client:
        await client.start("p", *shell(script), sandbox=limited)
        exited = await client.event("p", "process/exited")
        assert exited["cause"] == cause
        assert exited["usage"]["peakMemoryBytes"] > 0
        if cause == "cpu":
            # The kernel enforces the limit by its clock ticks and reports by a finer clock.
            assert exited["usage"]["userMs"] + exited["usage"]["systemMs"] >= 500
        if cause == "wall":
            assert exited["usage"]["wallMs"] >= 900


async def test_the_exit_of_a_command_whose_mask_was_taken_away_says_so(workspace: Path) -> None:
    inside = sandbox(
        entry(ROOT, "read"),
        entry(PROJECT_ROOTS, "write"),
        cwd=workspace.as_uri(),
        workspaceRoots=[workspace.as_uri()],
    )
    async with session() as client:
        await client.start("p", "/bin/sleep", "1000", cwd=str(workspace), sandbox=inside)
        (workspace / ".git").rename(workspace / "moved")
        finished = await client.finish("p")
        told = await client.call("process/snapshot", {"processId": "p"})
    assert (told["exitCode"], told["cause"]) == (125, "breach")
    assert f"{workspace}/.git was moved, removed or replaced".encode() in finished.streams["stderr"]
    assert os.listdir(workspace) == ["moved"]


async def test_a_failure_for_want_of_processes_is_told() -> None:
    if not probe.host().can_limit_processes:
        pytest.skip("this host can't limit the processes of this user")
    limited = sandbox(entry(ROOT, "read"), limits={"processes": 3})
    async with session() as client:
        for name, script, cause in (
            ("refused", "sleep 1000 & sleep 1000 & sleep 1000 & exit 0", "processes"),
            ("full", "sleep 1000 & sleep 1000 & exit 3", "exit"),
            ("not full", "sleep 1000 & exit 3", "exit"),
        ):
            await client.start(name, *shell(script), sandbox=limited)
            assert (await client.event(name, "process/exited"))["cause"] == cause


@pytest.mark.parametrize("is_confined", [False, True])
async def test_a_process_that_somebody_has_ended_is_told_apart(is_confined: bool) -> None:
    wanted = {"sandbox": READ_ONLY} if is_confined else {}
    async with session() as client:
        for mode in ("force", {"graceful": {"timeoutMs": 60_000}}):
            await client.start("p", "/bin/sleep", "1000", **wanted, processId=str(mode))
            await client.call("process/terminate", {"processId": str(mode), "mode": mode})
            assert (await client.event(str(mode), "process/exited"))["cause"] == "terminated"


async def test_a_command_whose_init_is_killed_did_not_exit_by_itself(workspace: Path) -> None:
    async with session() as client:
        await client.start("p", "/bin/sleep", "1000", cwd=str(workspace), sandbox=workspace_write(workspace))
        # A spare sandbox has one too, without a command.
        inits = [pid for pid in descendants_of(os.getpid()) if command_of(pid) == "paddock-init"]
        (init,) = filter(children_of, inits)
        os.kill(init, signal.SIGKILL)
        exited = await client.event("p", "process/exited")
        assert (exited["exitCode"], exited["cause"]) == (137, "signal")
        await client.start("q", *shell("exit 137"), cwd=str(workspace), sandbox=workspace_write(workspace))
        exited = await client.event("q", "process/exited")
        assert (exited["exitCode"], exited["cause"]) == (137, "exit")


async def test_a_client_of_the_reference_is_told_nothing_more_at_the_exit() -> None:
    async with session(extensions=False) as client:
        await client.start("p", "/bin/true", sandbox=READ_ONLY)
        exited = await client.event("p", "process/exited")
    assert exited.keys() == {"processId", "seq", "exitCode", "sandboxDenied"}
