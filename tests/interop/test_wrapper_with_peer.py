"""The original's wrapper and Bash work with our server, and ours with the original's server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import paddock
from bench.original import OriginalShell, vendor_directory
from paddock.config import make_settings
from paddock.server.app import serve
from tests.interop.wrapper_programs import (
    PEER_WRAPPER,
    WRAPPER,
    needs_patched_bash,
    needs_peer_programs,
    patched_bash,
    peer_bash,
)
from tests.sandbox.intercepted import rule, rules, told

pytestmark = [needs_patched_bash, needs_peer_programs]

SCRIPT = "uname; echo $?; id -u; echo $?; ls -d /; sh -c 'exit 5'; echo $?; exec sh -c 'cat; exit 6' <<<input"
TIMEOUT_S = 60.0
SAID = f"1\n{os.getuid()}\n0\n/\n5\ninput\n"
RULES = rules(rule("forbidden", "uname"), rule("allow", "id"), rule("allow", "sh"))


# --- our server -------------------------------------------------------------


async def run(directory: Path, script: str, **settings: Any) -> paddock.CompletedProcess[bytes]:
    listen = f"unix://{directory}/socket"
    table = {"listen": listen, "interception": "wrapper", "allow_escalation": True, **settings}
    async with serve(make_settings(table)) as server, paddock.connect(server.url) as box:
        return await box.run(
            ["bash", "-c", script], cwd=directory, sandbox=":workspace", intercept=RULES, timeout_s=60
        )


def require_all(done: paddock.CompletedProcess[bytes]) -> None:
    """See that the script ran as it should."""
    assert (done.returncode, done.stdout.decode()) == (6, SAID)
    reason = b"`/usr/bin/uname` is forbidden by /etc/test.rules:7"
    assert done.stderr == b"Execution denied: Execution forbidden by policy: " + reason + b"\n"
    assert [told(done, verdict) for verdict in (paddock.Verdict.DENY, paddock.Verdict.ESCALATE)] == [
        ["uname"],
        ["id", "dash", "dash"] if os.path.realpath("/bin/sh").endswith("dash") else ["id", "bash", "bash"],
    ]


async def test_the_originals_wrapper_and_bash_ask_our_server(tmp_path: Path) -> None:
    # Our Bash gives each program our wrapper, so another program starts theirs.
    inner = f'env BASH_EXEC_WRAPPER={PEER_WRAPPER} {peer_bash()} -c "$SCRIPT"'
    require_all(await run(tmp_path, f"SCRIPT={json.dumps(SCRIPT).replace('$', chr(92) + '$')}; {inner}"))


async def test_the_originals_bash_asks_our_server_by_our_wrapper(tmp_path: Path) -> None:
    require_all(await run(tmp_path, SCRIPT, interception_shell=str(peer_bash())))


async def test_our_bash_asks_our_server_by_the_originals_wrapper(tmp_path: Path) -> None:
    inner = f'env BASH_EXEC_WRAPPER={PEER_WRAPPER} {patched_bash()} -c "$SCRIPT"'
    require_all(await run(tmp_path, f"SCRIPT={json.dumps(SCRIPT).replace('$', chr(92) + '$')}; {inner}"))


# --- their server -----------------------------------------------------------


PEER_RULES = (
    'prefix_rule(pattern=["uname"], decision="forbidden")',
    'prefix_rule(pattern=["id"], decision="allow")',
    'prefix_rule(pattern=["sh"], decision="allow")',
)


@contextmanager
def original_server(wrapper: Path, shell: Path) -> Iterator[OriginalShell]:
    server = OriginalShell(vendor_directory(), wrapper=wrapper, shell=shell, rules=PEER_RULES)
    try:
        yield server
    finally:
        server.close()


@pytest.mark.parametrize("is_own_bash", [True, False], ids=["our-bash", "their-bash"])
def test_our_wrapper_asks_the_originals_server(is_own_bash: bool) -> None:
    with original_server(WRAPPER, patched_bash() if is_own_bash else peer_bash()) as server:
        done = server.end_of(SCRIPT, TIMEOUT_S)
    # It shows standard error behind standard output.
    assert done == (6, SAID + "Execution denied: Execution forbidden by policy\n")


def test_defects_of_the_original_are_not_there_with_our_programs(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo ran\n")
    script.chmod(0o755)
    attempts = (
        f"unset BASH_EXEC_WRAPPER; uname; (exec -a zed cat /proc/self/cmdline | tr '\\0' ' '); {script}"
    )
    with original_server(WRAPPER, patched_bash()) as server:
        _, ours = server.end_of(attempts, TIMEOUT_S)
    assert ours == "zed /proc/self/cmdline ran\nExecution denied: Execution forbidden by policy\n"
    with original_server(PEER_WRAPPER, peer_bash()) as server:
        _, theirs = server.end_of(attempts, TIMEOUT_S)
    assert theirs.startswith("Linux\n")
