"""The recorded exchanges with the peer's MCP shell server, held with `paddock mcp`.

The client is raw lines of JSON on the standard streams of a real process. Output is compared by its lines,
for the peer puts all of stdout before stderr; a denial may say more than the peer's. What is an error must
be one of the same code; its wording is free.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.mcp_deviations import DEVIATIONS

RECORD = json.loads((Path(__file__).parent / "mcp/transcript.json").read_text())
EXCHANGES = {exchange["name"]: exchange for exchange in RECORD["exchanges"]}

EXIT_TIMEOUT_S = 30.0

FREE = ("serverInfo", "instructions")
"""Members whose words are each server's own."""

_DENIAL = "Execution denied"


class RawClient:
    """Lines of JSON to and from a server."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._id = 0

    def send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The next message that is no mere notification."""
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            message: dict[str, Any] = json.loads(line)
            if "id" in message:
                return message
        raise AssertionError("the server has gone")


class Ground:
    """A workspace, a directory outside of it, and a home."""

    def __init__(self, directory: Path) -> None:
        self.workspace = directory / "workspace"
        self.outside = directory / "outside"
        self.home = directory / "home"
        for path in (self.workspace, self.outside, self.home):
            path.mkdir()
        (self.home / ".gitconfig").write_text("[init]\n\tdefaultBranch = main\n")

    def renew(self) -> None:
        """Make the workspace as it was before the first exchange."""
        for path in self.workspace.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                # Paddock may remove its own mark of a command that has just ended.
                path.unlink(missing_ok=True)
        for name, text in (("noshe", "echo from script\n"), ("she", "#!/bin/sh\necho she; id -u\n")):
            (self.workspace / name).write_text(text)
            (self.workspace / name).chmod(0o755)

    def filled_in(self, value: Any) -> Any:
        """What was recorded, with the paths of this ground."""
        match value:
            case str():
                return value.replace("@W", str(self.workspace)).replace("@OUT", str(self.outside))
            case dict():
                return {name: self.filled_in(each) for name, each in value.items()}
            case list():
                return [self.filled_in(each) for each in value]
        return value


@pytest.fixture(scope="module", name="whole_ground")
def ground_of_all() -> Iterator[Ground]:
    # Not in /tmp, which the profile of a workspace lets every command write.
    with tempfile.TemporaryDirectory(prefix="paddock-mcp-", dir="/var/tmp") as directory:
        yield Ground(Path(directory))


@pytest.fixture
def ground(whole_ground: Ground) -> Ground:
    whole_ground.renew()
    return whole_ground


@pytest.fixture(scope="module")
def clients(whole_ground: Ground) -> Iterator[dict[str, RawClient]]:
    """A client of a server with each set of rules; an exchange starts with the widest state."""
    with served(whole_ground, "default") as one, served(whole_ground, "second") as other:
        yield {"default": one, "second": other}


@contextmanager
def served(ground: Ground, rules: str) -> Iterator[RawClient]:
    file = ground.home / f"{rules}.rules"
    file.write_text("\n".join(RECORD["rules"][rules]) + "\n")
    with subprocess.Popen(
        [
            *(sys.executable, "-P", "-m", "paddock", "mcp"),
            *("--workspace", ground.workspace, "--rules", file),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"HOME": str(ground.home), "PATH": "/usr/bin:/bin"},
    ) as process:
        client = RawClient(process)
        hold(client, ground, EXCHANGES["initialize"]["messages"])
        yield client
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(EXIT_TIMEOUT_S) == 0


def held(clients: dict[str, RawClient], ground: Ground, name: str) -> RawClient:
    """The client for an exchange, with no narrower state left from another."""
    client = clients[EXCHANGES[name]["rules"]]
    hold(client, ground, EXCHANGES["sandbox_state_update"]["messages"])
    return client


def hold(client: RawClient, ground: Ground, messages: list[dict[str, Any]]) -> None:
    """Send what the client sent, and expect what the server answered."""
    asked: list[int | str] = []
    for step in messages:
        message = ground.filled_in(step["message"])
        if step["from"] == "client":
            if "method" not in message:
                message = {**message, "id": asked.pop()}
            client.send(message)
            continue
        answer = client.receive()
        if "method" in message:
            assert answer["method"] == message["method"]
            asked.append(answer["id"])
            check(message["params"], answer["params"], ground, ("_meta", "properties"))
            properties = message["params"]["requestedSchema"]["properties"]
            assert properties.items() <= answer["params"]["requestedSchema"]["properties"].items()
        else:
            assert answer["id"] == message.get("id", answer["id"])
            check({name: each for name, each in message.items() if name != "id"}, answer, ground)


def check(expected: Any, actual: Any, ground: Ground, ignored: tuple[str, ...] = ()) -> None:
    """Hold a value against what was recorded: there may be more in it, and never less."""
    match expected:
        case "<int>":
            assert isinstance(actual, int)
        case {"code": code, "message": str()}:
            assert (actual or {}).get("code") == code, actual
            assert actual["message"]
        case dict():
            for name, each in expected.items():
                if name == "text_json":
                    check_text(each, json.loads(actual["text"]), ground)
                elif name not in (*ignored, *FREE):
                    check(each, actual.get(name), ground, ignored)
        case list():
            assert len(actual) >= len(expected)
            for one, other in zip(expected, actual, strict=False):
                check(one, other, ground, ignored)
        case _:
            assert actual == expected


RECORDED_USER = "0"
"""What `id -u` said: the exchanges were recorded as root."""


def check_text(expected: dict[str, Any], actual: dict[str, Any], ground: Ground) -> None:
    check({name: each for name, each in expected.items() if name != "output"}, actual, ground)
    wanted = sorted(_line_pattern(line) for line in expected["output"].splitlines())
    lines = sorted(actual["output"].splitlines())
    assert len(lines) == len(wanted), (expected, actual)
    for pattern in wanted:
        assert any(re.fullmatch(pattern, line) for line in lines), (expected, actual)


def _line_pattern(line: str) -> str:
    if line == RECORDED_USER:
        return str(os.geteuid())
    pattern = re.escape(line).replace("@SHELL", ".*").replace("<int>", r" *\d+")
    # Which rule, and why: the peer does not say.
    return f"{pattern}.*" if line.startswith(_DENIAL) else pattern


def messages_of(name: str) -> list[dict[str, Any]]:
    """An exchange, with what Paddock does instead."""
    messages: list[dict[str, Any]] = EXCHANGES[name]["messages"]
    if name in DEVIATIONS:
        instead, _ = DEVIATIONS[name]
        messages = [*messages[:-1], {"from": "server", "message": instead}]
    return messages


HELD = [
    name
    for name in EXCHANGES
    if name not in ("initialize", "tools_list", "call_cancelled", "sandbox_read_only")
]


@pytest.mark.parametrize("name", HELD)
def test_exchange_holds(name: str, ground: Ground, clients: dict[str, RawClient]) -> None:
    hold(held(clients, ground, name), ground, messages_of(name))


@pytest.mark.parametrize("name", sorted(DEVIATIONS))
def test_every_deviation_is_needed(name: str, ground: Ground, clients: dict[str, RawClient]) -> None:
    client = held(clients, ground, name)
    with pytest.raises(AssertionError):
        hold(client, ground, EXCHANGES[name]["messages"])


def test_tool_has_the_name_and_the_parameters_of_the_peers(clients: dict[str, RawClient]) -> None:
    [recorded] = EXCHANGES["tools_list"]["messages"][1]["message"]["result"]["tools"]
    clients["default"].send({"id": 2, "method": "tools/list"})
    shell = clients["default"].receive()["result"]["tools"][0]
    assert shell["name"] == recorded["name"]
    schema = shell["inputSchema"]
    assert schema["required"] == recorded["inputSchema"]["required"]
    assert set(schema["properties"]) == set(recorded["inputSchema"]["properties"])
    for name, wanted in recorded["inputSchema"]["properties"].items():
        found = schema["properties"][name]
        types = {each.get("type") for each in found.get("anyOf", [found])}
        assert wanted["type"] in types
        assert wanted.get("nullable", False) == ("null" in types)


def test_cancelled_call_ends_and_gets_no_answer(ground: Ground, clients: dict[str, RawClient]) -> None:
    client = held(clients, ground, "call_cancelled")
    for step in EXCHANGES["call_cancelled"]["messages"][:2]:
        client.send(ground.filled_in(step["message"]))
    client.send({"id": 99, "method": "ping"})
    assert client.receive() == {"jsonrpc": "2.0", "id": 99, "result": {}}


def test_read_only_state_confines_what_runs_and_not_what_is_let_out(
    ground: Ground, clients: dict[str, RawClient]
) -> None:
    client = held(clients, ground, "sandbox_read_only")
    exchange = EXCHANGES["sandbox_read_only"]["messages"]
    hold(client, ground, exchange[:2])
    client.send(ground.filled_in(exchange[2]["message"]))
    told = json.loads(client.receive()["result"]["content"][0]["text"])
    lines = told["output"].splitlines()
    assert (lines.count("rc=1"), lines.count("rc=0")) == (1, 1)
    # Of the program that is let out first, then of the one in the sandbox.
    assert [line for line in lines if line.startswith("NoNewPrivs")] == ["NoNewPrivs:\t0", "NoNewPrivs:\t1"]
    assert (ground.workspace / "esc1").exists()
    assert not (ground.workspace / "ro1").exists()
