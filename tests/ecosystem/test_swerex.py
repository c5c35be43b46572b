"""SWE-ReX's own tests of a remote runtime, against `paddock serve --swerex`, and ours beside them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from pydantic import field_validator
from swerex.deployment.remote import RemoteDeployment
from swerex.exceptions import CommandTimeoutError, DeploymentNotStartedError, SessionDoesNotExistError
from swerex.runtime.abstract import (
    BashAction,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)
from swerex.runtime.remote import RemoteRuntime

from paddock.adapters.swerex import PaddockDeployment
from tests.ecosystem.conftest import Server
from tests.ecosystem.pages import run_page
from tests.ecosystem.refusal import REFUSAL, is_refusal
from tests.ecosystem.upstream import upstream_tests
from tests.ecosystem.way import WAY, Way
from tests.tls import CERT
from tests.tls import KEY as TLS_KEY

KEY = "a-key-of-the-tests"
TIMEOUT_S = 20.0
LEAST_TIMEOUT_S = 1.0


class _Action(BashAction):
    """As in the file of helpers that the source leaves out: nothing waits for ever.

    But a program has the time to start, on a machine with other work: a test interrupts one after a tenth of
    a second, and expects that it runs.
    """

    timeout: float | None = TIMEOUT_S

    @field_validator("timeout")
    @classmethod
    def long_enough(cls, timeout_s: float) -> float:
        return max(timeout_s, LEAST_TIMEOUT_S)


class _Command(Command):
    timeout: float | None = TIMEOUT_S


@dataclass(frozen=True)
class RemoteServer:
    """Where a server listens, and with which key."""

    port: int

    @property
    def headers(self) -> dict[str, str]:
        return {"X-API-Key": KEY}


HELPERS: dict[str, Any] = {
    "_Action": _Action,
    "_Command": _Command,
    "RemoteServer": RemoteServer,
    "TEST_API_KEY": KEY,
}
SUITES = ("test_execution", "test_server", "test_remote_deployment")
for suite in SUITES:
    module = upstream_tests("swe_rex", suite, __conftest=HELPERS, tests__conftest=HELPERS)
    tests = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    globals().update(tests)


@contextmanager
def serving_swerex(home: Path, *options: str) -> Iterator[str]:
    """The URL of a server that asks for the key."""
    token = home / "token"
    token.write_text(KEY)
    token.chmod(0o600)
    token_options = ["--ws-auth", "capability-token", "--ws-token-file", str(token)]
    command = [sys.executable, "-P", "-m", "paddock", "serve", "--swerex", *token_options, *options]
    # What a login shell of this host says is no part of a command's output.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(home)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, process_group=0, env=environment
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


@pytest.fixture(scope="session")
def swerex_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_swerex(tmp_path_factory.mktemp("home")) as url:
        yield url


@pytest.fixture(scope="session")
def way_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL for clients that can be told one; some of the suite's tests can only speak HTTP."""
    if WAY is not Way.TLS:
        yield request.getfixturevalue("swerex_url")
        return
    options = ["--listen", "https://127.0.0.1:0", "--tls-cert", str(CERT), "--tls-key", str(TLS_KEY)]
    with serving_swerex(tmp_path_factory.mktemp("home"), *options) as url:
        assert url.startswith("https://")
        yield url


@pytest.fixture
def remote_server(swerex_url: str) -> RemoteServer:
    return RemoteServer(int(swerex_url.rpartition(":")[2]))


@pytest_asyncio.fixture
async def remote_runtime(way_url: str) -> AsyncIterator[RemoteRuntime]:
    host, _, port = way_url.rpartition(":")
    runtime = RemoteRuntime(host=host, port=int(port), auth_token=KEY, timeout=TIMEOUT_S)
    yield runtime
    await runtime.close()


@pytest_asyncio.fixture
async def runtime_with_default_session(remote_runtime: RemoteRuntime) -> AsyncIterator[RemoteRuntime]:
    await remote_runtime.create_session(CreateBashSessionRequest())
    yield remote_runtime


async def test_a_remote_deployment_is_told_of_a_refused_write_to_etc(
    runtime_with_default_session: RemoteRuntime,
) -> None:
    runtime = runtime_with_default_session
    said = await runtime.run_in_session(_Action(command="touch /etc/paddock-no", check="silent"))
    assert said.exit_code == 1
    assert is_refusal(said.output)
    ran = await runtime.execute(_Command(command="touch /etc/paddock-no", shell=True))
    assert is_refusal(ran.stderr)
    with pytest.raises(OSError, match=REFUSAL):
        await runtime.write_file(WriteFileRequest(path="/etc/paddock-no", content="x"))


async def test_commands_and_files_see_one_directory_that_is_their_own(remote_runtime: RemoteRuntime) -> None:
    await remote_runtime.write_file(WriteFileRequest(path="a/file", content="text"))
    ran = await remote_runtime.execute(_Command(command="pwd; cat a/file", shell=True))
    directory, text = ran.stdout.splitlines()
    assert text == "text"
    assert directory.startswith("/tmp/paddock-")


async def test_an_upload_stays_in_its_directory(remote_runtime: RemoteRuntime, tmp_path: Path) -> None:
    source = tmp_path / "tree" / "below"
    source.mkdir(parents=True)
    (source / "file").write_text("x")
    for _ in range(2):
        await remote_runtime.upload(UploadRequest(source_path=str(tmp_path / "tree"), target_path="copy"))
    read = await remote_runtime.read_file(ReadFileRequest(path="copy/below/file"))
    assert read.content == "x"
    with pytest.raises(OSError, match=REFUSAL):
        await remote_runtime.upload(
            UploadRequest(source_path=str(source / "file"), target_path="/etc/paddock-no")
        )


def test_who_has_no_key_or_a_wrong_one_is_turned_away(swerex_url: str) -> None:
    for headers, status in (({}, 403), ({"X-API-Key": "wrong"}, 401), ({"X-API-Key": KEY}, 200)):
        assert httpx.get(f"{swerex_url}/is_alive", headers=headers, timeout=30).status_code == status
    page = {"X-API-Key": KEY, "Origin": "http://a.test"}
    assert httpx.get(f"{swerex_url}/is_alive", headers=page, timeout=30).status_code == 403


def test_a_request_that_is_repeated_is_carried_out_once(swerex_url: str) -> None:
    headers = {"X-API-Key": KEY, "X-Request-ID": "one"}
    body = {"command": "echo x >> counted; wc -l < counted", "shell": True}
    answers = [httpx.post(f"{swerex_url}/execute", json=body, headers=headers, timeout=30) for _ in range(3)]
    assert [answer.json()["stdout"].strip() for answer in answers] == ["1"] * 3


def test_a_request_that_did_not_come_as_a_whole_is_carried_out_when_it_is_repeated(swerex_url: str) -> None:
    headers = {"X-API-Key": KEY, "X-Request-ID": "cut"}
    body = b'{"command": "echo ran", "shell": true}'
    lines = [f"{name}: {value}" for name, value in {**headers, "Content-Length": len(body)}.items()]
    head = "\r\n".join(["POST /execute HTTP/1.1", "Host: 127.0.0.1", *lines, "", ""])
    host, _, port = swerex_url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port))) as cut:
        cut.sendall(head.encode() + body[:9])
        cut.shutdown(socket.SHUT_WR)
        # Until the server has noticed the end.
        assert b"ran" not in cut.recv(1024)
    answer = httpx.post(f"{swerex_url}/execute", content=body, headers=headers, timeout=30)
    assert answer.json()["stdout"] == "ran\n"


def test_what_is_no_request_is_refused(swerex_url: str) -> None:
    headers = {"X-API-Key": KEY}
    assert httpx.post(f"{swerex_url}/execute", json={}, headers=headers, timeout=30).status_code == 422
    assert httpx.post(f"{swerex_url}/nothing", headers=headers, timeout=30).status_code == 404


async def test_a_command_that_takes_too_long_gives_its_output_so_far(remote_runtime: RemoteRuntime) -> None:
    slow = Command(command="echo before; sleep 600", shell=True, timeout=1)
    with pytest.raises(CommandTimeoutError, match=r"output so far: 'before\\n'"):
        await remote_runtime.execute(slow)


async def test_a_session_that_ends_itself_is_gone(remote_runtime: RemoteRuntime) -> None:
    await remote_runtime.create_session(CreateBashSessionRequest(session="brief"))
    ended = await remote_runtime.run_in_session(_Action(command="exit 3", session="brief", check="silent"))
    assert "has ended" in ended.failure_reason
    with pytest.raises(SessionDoesNotExistError):
        await remote_runtime.close_session(CloseBashSessionRequest(session="brief"))


async def test_a_deployment_works_on_a_server_without_http(server: Server, requests: Counter[str]) -> None:
    deployment = PaddockDeployment(server.target)
    with pytest.raises(DeploymentNotStartedError):
        await deployment.is_alive()
    await deployment.start()
    assert await deployment.is_alive()
    runtime = deployment.runtime
    requests.clear()
    await runtime.write_file(WriteFileRequest(path="file", content="text"))
    assert (await runtime.read_file(ReadFileRequest(path="file"))).content == "text"
    assert requests == {"fs/writeFile": 1, "fs/readFile": 1}
    await runtime.create_session(CreateBashSessionRequest())
    assert (await runtime.run_in_session(_Action(command="cat file"))).output == "text"
    await deployment.stop()


async def test_commands_and_sessions_of_a_deployment_get_its_variables() -> None:
    deployment = PaddockDeployment(env={"OURS": "1"})
    await deployment.start()
    runtime, show = deployment.runtime, "echo $OURS $THEIRS"
    await runtime.create_session(CreateBashSessionRequest())
    assert (await runtime.run_in_session(_Action(command=show))).output.strip() == "1"
    assert (await runtime.execute(_Command(command=show, shell=True))).stdout == "1\n"
    whole = _Command(command=show, shell=True, env={"THEIRS": "2"})
    assert (await runtime.execute(whole)).stdout == "2\n"
    await deployment.stop()


async def test_a_remote_deployment_connects_by_its_settings(way_url: str) -> None:
    host, _, port = way_url.rpartition(":")
    deployment = RemoteDeployment(host=host, port=int(port), auth_token=KEY, timeout=TIMEOUT_S)
    await deployment.start()
    assert (await deployment.runtime.execute(_Command(command=["echo", "hi"]))).stdout == "hi\n"
    await deployment.stop()


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    run_page("swerex", tmp_path)
