"""What a client decides about the network of its processes while they run, on the real kernel.

No name has an address here, so that what is allowed ends in a 502 and what is not in a 403: that is enough to
tell the two apart.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from paddock.errors import ConfigError
from paddock.network import name_lookup
from paddock.network.address import Address
from paddock.server.process_network import ProcessNetwork
from tests.wire import WireClient, WireError, attach, served, start_params

ASK = "network/policyRequest"
TOLD = "network/policyDecision"
EXTENDED = {"extensions": True, "requests": [ASK], "notifications": [TOLD]}
FETCH = ("curl", "-s", "-w", "%{http_code}\\n", "--max-time", "50")


@pytest.fixture(autouse=True)
def _no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, port: int) -> Sequence[Address]:
        raise OSError("no such name")

    monkeypatch.setattr(name_lookup, "look_up_by_system", look_up)


def fetch(*urls: str) -> tuple[str, ...]:
    """A command that prints the status of each answer."""
    return (*FETCH, *(word for url in urls for word in ("-o", "/dev/null", url)))


def sandbox(network: Any) -> dict[str, Any]:
    profile = {"type": "managed", "file_system": {"type": "unrestricted"}, "network": network}
    return {"permissions": profile, "windowsSandboxLevel": "disabled"}


def proxied(*allow: str, **more: Any) -> dict[str, Any]:
    return sandbox({"type": "proxied", "allow": list(allow), **more})


@asynccontextmanager
async def connected(**capabilities: Any) -> AsyncIterator[WireClient]:
    async with served() as server:
        client = attach(server)
        await client.initialize(capabilities=capabilities)
        yield client


async def answer(client: WireClient, decision: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Answer the next question about a host. Returns its parameters."""
    asked = await client.take(lambda message: message.get("method") == ASK)
    client.send({"id": asked["id"], "result": {"decision": decision, **more}})
    params: dict[str, Any] = asked["params"]
    return params


async def output(client: WireClient, process_id: str) -> list[str]:
    return (await client.finish(process_id)).streams["stdout"].decode().split()


@pytest.mark.parametrize(
    ("decision", "status"),
    [
        ({"type": "allow"}, "502"),
        ({"type": "deny", "reason": "not today"}, "403"),
        ({"type": "ask", "reason": "later"}, "403"),
    ],
)
async def test_client_decides_on_a_host_that_no_list_names(decision: dict[str, Any], status: str) -> None:
    async with connected(**EXTENDED) as client:
        await client.start("p", *fetch("http://a.test/"), sandbox=proxied("b.test"))
        params = await answer(client, decision)
        assert params["processId"] == "p"
        assert params["request"] == {"protocol": "http", "host": "a.test", "port": 80}
        told = await client.take(lambda message: message.get("method") == TOLD)
        assert await output(client, "p") == [status]
        assert told["params"]["host"] == "a.test"
        assert told["params"]["source"] == "decider"
        assert told["params"]["policyOverride"] is (status == "502")


async def test_reason_of_a_refusal_reaches_the_command_and_the_denial() -> None:
    async with connected(**EXTENDED) as client:
        await client.start("p", "curl", "-s", "http://a.test/", sandbox=proxied())
        await answer(client, {"type": "deny", "reason": "use the mirror"})
        done = await client.finish("p")
        assert b"use the mirror" in done.streams["stdout"]
        (denial,) = (await client.call("process/wait", {"processId": "p"}))["denials"]
        assert denial["host"] == "a.test"
        assert denial["port"] == 80
        assert denial["protocol"] == "http"
        assert denial["certain"] is True
        assert "use the mirror" in denial["rule"]


async def test_what_a_list_decides_is_not_asked() -> None:
    async with connected(**EXTENDED) as client:
        network = proxied("a.test", deny=["b.test"])
        hosts = ("http://a.test/", "http://b.test/", "http://127.0.0.1/", "http://10.0.0.1/")
        await client.start("p", *fetch(*hosts), "--noproxy", "", sandbox=network)
        assert await output(client, "p") == ["502", "403", "403", "403"]


async def test_answer_stands_once_for_the_process_or_for_the_session() -> None:
    async with connected(**EXTENDED) as client:
        twice = fetch("http://a.test/", "http://a.test/")
        await client.start("once", *twice, sandbox=proxied())
        for _ in range(2):
            await answer(client, {"type": "allow"})
        assert await output(client, "once") == ["502", "502"]
        await client.start("process", *twice, sandbox=proxied())
        await answer(client, {"type": "allow"}, remember="process")
        assert await output(client, "process") == ["502", "502"]
        await client.start("session", *twice, sandbox=proxied())
        await answer(client, {"type": "deny", "reason": "no"}, remember="session")
        assert await output(client, "session") == ["403", "403"]
        await client.start("later", *twice, sandbox=proxied())
        assert await output(client, "later") == ["403", "403"]


async def test_answer_as_a_rule_is_a_line_that_counts_for_every_session_and_the_next_server(
    tmp_path: Path,
) -> None:
    file = tmp_path / "hosts.rules"
    settings = {"network_rules_file": str(file)}
    async with served(**settings) as server:
        client = attach(server)
        await client.initialize(capabilities=EXTENDED)
        await client.start("p", *fetch("http://a.test/", "http://b.test/"), sandbox=proxied())
        await answer(client, {"type": "allow"}, remember="rule")
        told = await client.take(lambda message: message.get("method") == TOLD)
        assert told["params"]["rule"].endswith(f"remembered as a rule at {file}:1")
        await answer(client, {"type": "deny", "reason": "not here"}, remember="rule")
        assert await output(client, "p") == ["502", "403"]
        other = attach(server)
        await other.initialize(capabilities=EXTENDED)
        await other.start("q", *fetch("http://a.test/", "http://b.test/"), sandbox=proxied())
        assert await output(other, "q") == ["502", "403"]
    assert file.read_text().splitlines() == [
        'network_rule(host="a.test", protocol="http", decision="allow")',
        'network_rule(host="b.test", protocol="http", decision="deny", justification="not here")',
    ]
    async with served(**settings) as server:
        client = attach(server)
        # It asks nobody, so that only the rules can decide.
        await client.initialize(capabilities={"extensions": True, "notifications": [TOLD]})
        await client.start("p", *fetch("http://a.test/", "http://b.test/"), sandbox=proxied())
        told = await client.take(lambda message: message.get("method") == TOLD)
        assert told["params"]["rule"] == f"{file}:1"
        assert await output(client, "p") == ["502", "403"]


async def test_rules_that_an_operator_writes_count_from_the_next_reload_on(tmp_path: Path) -> None:
    file = tmp_path / "hosts.rules"
    async with served(network_rules_file=str(file)) as server:
        client = attach(server)
        await client.initialize(capabilities=EXTENDED)
        await client.start("asked", *fetch("http://a.test/"), sandbox=proxied())
        await answer(client, {"type": "allow"}, remember="rule")
        assert await output(client, "asked") == ["502"]
        # Of a rule that was taken out nothing is left.
        file.write_text('network_rule(host="b.test", protocol="http", decision="allow")\n')
        await server.reload(server.settings)
        client = attach(server)
        await client.initialize(capabilities=EXTENDED)
        await client.start("ruled", *fetch("http://b.test/", "http://a.test/"), sandbox=proxied())
        await answer(client, {"type": "deny", "reason": "no"})
        assert await output(client, "ruled") == ["502", "403"]
        # What means nothing is refused, and the earlier rules stay.
        file.write_text("network_rule(")
        with pytest.raises(ConfigError, match="network_rules_file"):
            await server.reload(server.settings)
        await client.start("kept", *fetch("http://b.test/"), sandbox=proxied())
        assert await output(client, "kept") == ["502"]
        # Nobody but the server may change what it obeys.
        await client.start("w", "/bin/sh", "-c", f"echo >>{file} || echo refused", sandbox=proxied())
        assert await output(client, "w") == ["refused"]


async def test_answer_that_can_not_become_a_rule_stands_for_the_session_and_says_so() -> None:
    async with connected(**EXTENDED) as client:
        await client.start("p", *fetch("http://a.test/", "http://a.test/"), sandbox=proxied())
        await answer(client, {"type": "allow"}, remember="rule")
        told = await client.take(lambda message: message.get("method") == TOLD)
        assert "not remembered as a rule: the server has no file" in told["params"]["rule"]
        assert await output(client, "p") == ["502", "502"]


async def test_connections_to_one_host_at_once_are_one_question() -> None:
    async with connected(**EXTENDED) as client:
        script = " & ".join([shlex.join(fetch("http://a.test/"))] * 5) + " & wait"
        await client.start("p", "/bin/sh", "-c", script, sandbox=proxied())
        await answer(client, {"type": "allow"}, remember="process")
        assert await output(client, "p") == ["502"] * 5


async def test_client_that_does_not_answer_is_not_asked() -> None:
    async with connected(extensions=True) as client:
        await client.start("p", *fetch("http://a.test/"), sandbox=proxied())
        assert await output(client, "p") == ["403"]


async def test_question_ends_with_its_process() -> None:
    async with connected(**{**EXTENDED, "notifications": ["question/closed"]}) as client:
        await client.start("p", *fetch("http://a.test/"), sandbox=proxied())
        asked = await client.take(lambda message: message.get("method") == ASK)
        await client.call("process/terminate", {"processId": "p"})
        closed = await client.take(lambda message: message.get("method") == "question/closed")
        assert closed["params"]["questionId"] == asked["params"]["questionId"]
        await client.finish("p")


async def test_policy_of_a_running_process_changes() -> None:
    async with connected(extensions=True) as client:
        script = f"read x; {shlex.join(fetch('http://a.test/', 'http://b.test/'))}"
        for name in ("one", "other"):
            await client.start(name, "/bin/sh", "-c", script, sandbox=proxied("b.test"), pipeStdin=True)
        await client.call(
            "network/policyUpdate", {"processId": "one", "allow": ["a.test"], "deny": ["b.test"]}
        )
        for name in ("one", "other"):
            await client.call("process/write", {"processId": name, "chunk": "Cg==", "writeId": "1"})
        assert await output(client, "one") == ["502", "403"]
        assert await output(client, "other") == ["403", "502"]


async def test_process_without_a_proxy_has_no_policy_to_change() -> None:
    async with connected(extensions=True) as client:
        await client.start("p", "/bin/cat", pipeStdin=True)
        with pytest.raises(WireError, match="the network of 'p' is not proxied") as raised:
            await client.call("network/policyUpdate", {"processId": "p", "allow": ["a.test"]})
        assert raised.value.code == -32602


async def test_closed_process_keeps_no_policy_and_a_late_change_of_it_is_no_error() -> None:
    def networks() -> int:
        gc.collect()
        return sum(isinstance(each, ProcessNetwork) for each in gc.get_objects())

    async with connected(extensions=True) as client:
        await client.start("p", "/bin/sh", "-c", "read x", sandbox=proxied("a.test"), pipeStdin=True)
        assert networks() == 1
        await client.call("process/terminate", {"processId": "p"})
        await client.finish("p")
        assert networks() == 0
        await client.call("network/policyUpdate", {"processId": "p", "allow": ["b.test"]})


async def test_policy_of_a_session_changes_also_for_what_is_started_later() -> None:
    async with connected(extensions=True) as client:
        await client.call("network/policyUpdate", {"session": True, "allow": ["a.test"]})
        await client.start("p", *fetch("http://a.test/", "http://b.test/"), sandbox=proxied())
        assert await output(client, "p") == ["502", "403"]


async def test_changes_of_a_session_and_of_a_process_are_bounded() -> None:
    async with connected(extensions=True) as client:
        await client.start("p", "/bin/sh", "-c", "read x", sandbox=proxied(), pipeStdin=True)
        names = [f"h{number}.test" for number in range(1024)]
        for whose in ({"session": True}, {"processId": "p"}):
            await client.call("network/policyUpdate", {**whose, "allow": names, "deny": names})
            await client.call("network/policyUpdate", {**whose, "allow": []})
            with pytest.raises(WireError, match="0 are left"):
                await client.call("network/policyUpdate", {**whose, "allow": ["a.test"]})


@pytest.mark.parametrize(
    "params",
    [
        {"allow": ["a.test"]},
        {"processId": "p", "session": True},
        {"session": True, "allow": ["http://a.test"]},
        {"session": True, "alow": []},
        {"processId": "nobody", "allow": []},
    ],
)
async def test_change_that_means_nothing_is_refused(params: dict[str, Any]) -> None:
    async with connected(extensions=True) as client:
        with pytest.raises(WireError):
            await client.call("network/policyUpdate", params)


async def test_cap_of_the_server_holds_whatever_a_client_decides() -> None:
    permissions = {"cap": {"filesystem": {":root": "write"}, "network": {"allow": ["b.test"]}}}
    async with served(permissions=permissions, max_profile="cap") as server:
        client = attach(server)
        await client.initialize(capabilities=EXTENDED)
        await client.call("network/policyUpdate", {"session": True, "allow": ["a.test", "b.test"]})
        await client.start("p", *fetch("http://a.test/", "http://b.test/"), sandbox=proxied("a.test"))
        assert await output(client, "p") == ["403", "502"]


async def test_managed_network_does_not_bypass_the_hosts_of_the_cap(tmp_path: Path) -> None:
    network = {"allow": ["b.test"]}
    permissions = {"cap": {"filesystem": {":root": "write"}, "network": network}}
    managed = {
        "managedNetwork": {"loopbackPorts": [2], "allowLocalBinding": False},
        "env": {"PATH": "/usr/bin:/bin", "http_proxy": "http://127.0.0.1:2"},
        "sandbox": sandbox("restricted"),
    }
    async with served(permissions=permissions, max_profile="cap") as capped, served() as free:
        for server, name in ((capped, "capped"), (free, "free")):
            client = attach(server)
            await client.initialize()
            starting = client.request(
                "process/start", start_params("p", "/usr/bin/touch", str(tmp_path / name), **managed)
            )
            if server is capped:
                with pytest.raises(WireError, match="bypasses the hosts of the profile that caps requests"):
                    await client.answer(starting)
            else:
                await client.answer(starting)
                await client.finish("p")
    assert os.listdir(tmp_path) == ["free"]


async def test_groups_of_the_settings_stand_for_their_hosts() -> None:
    async with served(network_groups={"python": ("a.test",), "mine": ("*.b.test",)}) as server:
        client = attach(server)
        await client.initialize(capabilities={"extensions": True})
        hosts = ("http://a.test/", "http://x.b.test/", "http://pypi.org/")
        await client.start("p", *fetch(*hosts), sandbox=proxied("@python", "@mine"))
        # What the settings say of a ready-made group takes its place.
        assert await output(client, "p") == ["502", "502", "403"]


async def test_proxy_of_the_reference_asks_its_client_and_tells_it() -> None:
    async with connected() as client:
        proxy = {"enabled": True, "mode": "full", "domains": {"b.test": "allow", "c.test": "deny"}}
        network_proxy = {"proxy": proxy, "policyDecisionTimeoutMs": 30_000}
        hosts = ("http://a.test/", "http://b.test:8080/", "http://c.test/")
        await client.start("p", *fetch(*hosts), sandbox=sandbox("restricted"), networkProxy=network_proxy)
        await answer(client, {"type": "allow"})
        decisions = []
        for _ in hosts:
            told = await client.take(lambda message: message.get("method") == TOLD)
            decisions.append((told["params"]["host"], told["params"]["decision"]))
        assert decisions == [("a.test", "allow"), ("b.test", "allow"), ("c.test", "deny")]
        assert await output(client, "p") == ["502", "502", "403"]


async def test_proxy_of_the_reference_without_a_time_for_decisions_asks_nobody() -> None:
    async with connected(**EXTENDED) as client:
        network_proxy = {"proxy": {"enabled": True, "domains": {"b.test": "allow"}}}
        hosts = ("http://a.test/", "http://b.test/")
        await client.start("p", *fetch(*hosts), sandbox=sandbox("restricted"), networkProxy=network_proxy)
        assert await output(client, "p") == ["403", "502"]
        assert not any(message.get("method") == ASK for message in client.unread)


async def test_question_without_an_answer_in_time_is_a_refusal() -> None:
    async with connected() as client:
        network_proxy = {"proxy": {"enabled": True}, "policyDecisionTimeoutMs": 1}
        await client.start(
            "p", *fetch("http://a.test/"), sandbox=sandbox("restricted"), networkProxy=network_proxy
        )
        assert await output(client, "p") == ["403"]


@pytest.mark.parametrize(
    "extra",
    [
        {"networkProxy": {"proxy": {"enabled": True}}},
        {"networkProxy": {"proxy": {"enabled": False}}, "sandbox": sandbox("restricted")},
        {"networkProxy": {"proxy": {"enabled": True, "mode": "limited"}}, "sandbox": sandbox("restricted")},
        {
            "networkProxy": {"proxy": {"enabled": True, "domains": {"a b": "allow"}}},
            "sandbox": sandbox("restricted"),
        },
        {"enforceManagedNetwork": True, "sandbox": sandbox("restricted")},
        {
            "enforceManagedNetwork": True,
            "networkProxy": {"proxy": {"enabled": True}},
            "env": {"PATH": "/usr/bin:/bin", "http_proxy": "http://127.0.0.1:2"},
            "sandbox": sandbox("restricted"),
        },
        {
            "managedNetwork": {"loopbackPorts": [1], "allowLocalBinding": False},
            "env": {"PATH": "/usr/bin:/bin", "http_proxy": "http://127.0.0.1:2"},
            "sandbox": sandbox("restricted"),
        },
        {
            "enforceManagedNetwork": True,
            "env": {"PATH": "/usr/bin:/bin", "http_proxy": "http://192.0.2.1:2"},
            "sandbox": sandbox("restricted"),
        },
        {"sandbox": proxied("@nobody")},
        {"sandbox": proxied("a.test", upstream="socks5://x")},
    ],
)
async def test_network_that_can_not_be_had_is_an_error_and_nothing_starts(
    extra: dict[str, Any], tmp_path: Path
) -> None:
    async with connected() as client:
        params = start_params("p", "/usr/bin/touch", str(tmp_path / "made"), **extra)
        with pytest.raises(WireError) as raised:
            await client.call("process/start", params)
        assert raised.value.code == -32602
        assert not (tmp_path / "made").exists()


async def test_managed_network_leads_to_the_proxy_of_the_client() -> None:
    heads = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 299 Own\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening:
        async with connected() as client:
            env = {"PATH": "/usr/bin:/bin", "http_proxy": f"http://me:pw@localhost:{port}/"}
            words = fetch("http://a.test/", f"http://127.0.0.1:{port}/")
            script = f"echo $http_proxy; {shlex.join(words)} --noproxy 127.0.0.1"
            await client.start(
                "p",
                "/bin/sh",
                "-c",
                script,
                env=env,
                sandbox=sandbox("restricted"),
                managedNetwork={"loopbackPorts": [port], "allowLocalBinding": False},
            )
            assert await output(client, "p") == ["http://me:pw@127.0.0.1:3128/", "299", "000"]
        assert len(heads) == 1
        assert heads[0].startswith(b"GET http://a.test/ ")
