"""`paddock mcp` and SIGHUP: it reads its rules again, or ends with its terminal."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.agent.command_rules import CommandRules
from paddock.model.decision import Action
from paddock.rules.loader import load_sound_policy
from tests.mcp_client import RawStdio, rules_file
from tests.operators import terminal
from tests.serving import serving

FORBIDDEN = 'prefix_rule(pattern=["whoami"], decision="forbidden", justification="private")\n'
ALLOWED = 'prefix_rule(pattern=["whoami"], decision="allow")\n'


@pytest.fixture
def workspace() -> Iterator[Path]:
    # Not in /tmp, which the profile of a workspace lets every command write.
    with tempfile.TemporaryDirectory(prefix="paddock-mcp-", dir="/var/tmp") as directory:
        yield Path(directory)


async def status_of(server: RawStdio, number: int, workspace: Path) -> str:
    """Return the exit status of a program that the rules are about."""
    arguments = {"command": "whoami > /dev/null; echo $?", "workdir": str(workspace)}
    answer = await server.ask(number, "tools/call", name="shell", arguments=arguments)
    return str(answer["result"]["structuredContent"]["stdout"]).strip()


async def test_changed_rules_hold_for_a_client_that_was_there(workspace: Path, tmp_path: Path) -> None:
    rules = rules_file(tmp_path, FORBIDDEN)
    with serving() as backend:
        arguments = ("--server", backend.url, "--workspace", workspace, "--rules", rules)
        async with RawStdio(*arguments, hears=True) as server:
            assert await status_of(server, 1, workspace) == "1"
            rules.write_text(ALLOWED)
            assert await server.heard_after(signal.SIGHUP) == (
                "paddock mcp: read the rules again: 1 about programs\n"
            )
            assert await status_of(server, 2, workspace) == "0"

            rules.write_text("prefix_rule(\n")
            heard = await server.heard_after(signal.SIGHUP)
            assert heard.startswith("paddock mcp: rules not read again; those before stay in force: ")
            assert await status_of(server, 3, workspace) == "0"
    assert server.status == 0


def test_it_ends_with_its_terminal(workspace: Path) -> None:
    command = [sys.executable, "-P", "-m", "paddock", "mcp", "--listen", "http://127.0.0.1:0"]
    with terminal([*command, "--workspace", str(workspace)]) as screen:
        screen.read_until(b"http://127.0.0.1:")
        screen.read_until(b"\n")
        screen.hang_up()
        assert screen.wait() == 0


def test_what_was_allowed_for_always_stays_unless_a_file_holds_it(tmp_path: Path) -> None:
    allowed = load_sound_policy([rules_file(tmp_path, ALLOWED)])
    forbidden = load_sound_policy([rules_file(tmp_path, FORBIDDEN)])
    in_memory = CommandRules(forbidden)
    in_memory.allow(["git", "status"])
    in_memory.renew(allowed)
    assert in_memory.policy.decide(["git", "status"], "/").action is Action.ALLOW
    assert in_memory.policy.decide(["whoami"], "/").action is Action.ALLOW
    in_a_file = CommandRules(forbidden, tmp_path / "always.rules")
    in_a_file.allow(["git", "status"])
    in_a_file.renew(allowed)
    assert in_a_file.policy.decide(["git", "status"], "/").action is None
