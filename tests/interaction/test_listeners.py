"""The listeners of a real server: who may connect, who may not, and what nobody gets to see."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

import paddock
from tests import tls
from tests.serving import ServerProcess, refused, serving
from tests.tokens import SECRET
from tests.tokens import token as signed

TOKEN = "correct-horse-battery-staple"
PATIENCE_S = 30
NOBODY = 65534


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    return private(tmp_path / "token", f"{TOKEN}\n")


@pytest.fixture
def secret_file(tmp_path: Path) -> str:
    return private(tmp_path / "secret", SECRET.decode())


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    return private(tmp_path / "key.pem", tls.KEY.read_text())


def private(path: Path, content: str) -> str:
    path.write_text(content)
    path.chmod(0o600)
    return str(path)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def call(connection: ClientConnection, method: str, params: Any) -> Any:
    connection.send(json.dumps({"id": 1, "method": method, "params": params}))
    while True:
        message = json.loads(connection.recv(timeout=PATIENCE_S))
        if message.get("id") == 1:
            return message["result"]


def initialize(connection: ClientConnection) -> None:
    assert call(connection, "initialize", {"clientName": "test"})["sessionId"]
    connection.send('{"method":"initialized"}')


def refusal(url: str, token: str | None) -> tuple[int, str]:
    """The status and the text that a client with this token gets."""
    with (
        pytest.raises(InvalidStatus) as caught,
        connect(url, additional_headers=bearer(token) if token else {}),
    ):
        pass
    response = caught.value.response
    return response.status_code, (response.body or b"").decode()


def get(url: str, path: str, headers: dict[str, str]) -> int:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status


# ---------------------------------------------------------------- tokens


def test_a_capability_token_lets_a_client_in_and_nothing_else_does(token_file: str) -> None:
    with serving("--ws-auth", "capability-token", "--ws-token-file", token_file) as server:
        assert refusal(server.url, None) == (401, "missing websocket bearer token")
        assert refusal(server.url, TOKEN[:-1]) == (401, "invalid websocket bearer token")
        with connect(server.url, additional_headers=bearer(TOKEN)) as connection:
            initialize(connection)


def test_a_signed_token_lets_a_client_in_until_it_expires(secret_file: str) -> None:
    now = int(time.time())
    claims = {"exp": now + 600, "iss": "me", "aud": ["you"]}
    flags = ("--ws-shared-secret-file", secret_file, "--ws-issuer", "me", "--ws-audience", "you")
    with serving("--ws-auth", "signed-bearer-token", *flags, "--ws-max-clock-skew-seconds", "5") as server:
        with connect(server.url, additional_headers=bearer(signed(claims))) as connection:
            initialize(connection)
        assert refusal(server.url, signed(claims | {"exp": now - 60})) == (401, "expired websocket jwt")
        assert refusal(server.url, signed(claims | {"iss": "x"})) == (401, "websocket jwt issuer mismatch")
        assert refusal(server.url, signed(claims, secret=b"x" * 32)) == (401, "invalid websocket jwt")


def test_what_watches_the_server_needs_the_token_for_numbers_but_not_for_health(token_file: str) -> None:
    with serving("--ws-auth", "capability-token", "--ws-token-file", token_file) as server:
        assert get(server.url, "/healthz", {}) == 200
        assert get(server.url, "/readyz", {}) == 200
        assert get(server.url, "/metrics", {}) == 401
        assert get(server.url, "/metrics", bearer(TOKEN)) == 200


# ---------------------------------------------------------------- encryption


def _tls_for_threads() -> ssl.SSLContext:
    """Without TLS 1.3: its tickets come while the client sends its request, which it reads in another thread.

    OpenSSL does not allow both at once, and sometimes nothing is sent then.
    """
    context = tls.client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def test_tls_carries_a_whole_session(token_file: str, key_file: str) -> None:
    auth = ("--ws-auth", "capability-token", "--ws-token-file", token_file)
    with serving(*auth, "--tls-cert", str(tls.CERT), "--tls-key", key_file) as server:
        assert server.url.startswith("wss://127.0.0.1:")
        with connect(
            server.url, ssl=_tls_for_threads(), additional_headers=bearer(TOKEN), max_size=None
        ) as connection:
            initialize(connection)
            output = run(connection, ["head", "-c", "3000000", "/dev/zero"], {"PATH": "/usr/bin:/bin"})
            assert output == bytes(3_000_000)
        # Nobody who hangs up in the middle of the handshake is worth a line.
        with socket.create_connection((urlsplit(server.url).hostname, urlsplit(server.url).port)):
            pass
        with connect(server.url, ssl=_tls_for_threads(), additional_headers=bearer(TOKEN)):
            pass
        log = server.stop()
    assert "Traceback" not in log
    assert "SSL" not in log


async def test_our_own_client_comes_in_with_its_token_over_tls(token_file: str, key_file: str) -> None:
    auth = ("--ws-auth", "capability-token", "--ws-token-file", token_file)
    with serving(*auth, "--tls-cert", str(tls.CERT), "--tls-key", key_file) as server:
        async with paddock.connect(server.url, token=TOKEN, tls_ca=tls.AUTHORITY) as box:
            assert (await box.run(["echo", "hello"])).stdout == b"hello\n"
        with pytest.raises(paddock.ConnectError, match="401 invalid websocket bearer token") as caught:
            await paddock.connect(server.url, token="hunter2", tls_ca=tls.AUTHORITY)
        assert "hunter2" not in repr(caught.value)


def run(connection: ClientConnection, argv: list[str], env: dict[str, str], **params: Any) -> bytes:
    """The output of a process."""
    start = {"processId": "p", "argv": argv, "cwd": "/", "env": env, "tty": False}
    connection.send(json.dumps({"id": 1, "method": "process/start", "params": start | params}))
    output = b""
    while True:
        message = json.loads(connection.recv(timeout=PATIENCE_S))
        match message.get("method"):
            case "process/output":
                output += base64.b64decode(message["params"]["chunk"])
            case "process/closed":
                return output


# ---------------------------------------------------------------- refusals to start


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--listen", "ws://0.0.0.0:0"], "other machines can reach"),
        (["--listen", "ws://[::]:0"], "other machines can reach"),
        (["--listen", "ws://[::ffff:0.0.0.0]:0"], "other machines can reach"),
        (["--listen", "wss://127.0.0.1:0"], "needs a certificate"),
        (["--ws-auth", "capability-token"], "needs one of ws_token_file and ws_token_sha256"),
        (["--ws-auth", "capability-token", "--ws-token-sha256", "abc"], "64 hexadecimal digits"),
        (["--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", "/no/such"], "can't be read"),
        (["--ws-issuer", "x"], "needs ws_auth"),
        (["--tls-cert", "/no/such", "--tls-key", "/no/such"], "can't be read"),
    ],
)
def test_an_address_that_can_not_be_guarded_is_not_listened_on(flags: list[str], reason: str) -> None:
    status, message = refused(*flags)
    assert status == 1
    assert message.startswith("paddock serve: ")
    assert reason in message
    assert message.count("\n") == 1, "one sentence"


def test_an_unknown_way_to_authenticate_is_a_wrong_command_line() -> None:
    assert refused("--ws-auth", "password")[0] == 2
    assert refused("--ws-max-clock-skew-seconds", "-1")[0] == 2


# ---------------------------------------------------------------- strangers


def test_a_web_page_that_renamed_itself_to_loopback_stays_outside() -> None:
    with serving() as server:
        for path in ("/", "/healthz", "/readyz", "/metrics"):
            assert get(server.url, path, {"Host": "rebound.example"}) == 403
            assert get(server.url, path, {"Origin": "https://rebound.example"}) == 403
        port = urlsplit(server.url).port
        assert get(server.url, "/healthz", {"Host": f"localhost:{port}"}) == 200


def test_crowds_that_say_nothing_do_not_keep_a_client_out(tmp_path: Path) -> None:
    config = private(tmp_path / "paddock.toml", "handshake_timeout_s = 3600\n")
    with serving("--config", config) as server, contextlib.ExitStack() as stack:
        address = (urlsplit(server.url).hostname, urlsplit(server.url).port)
        crowd = [stack.enter_context(socket.create_connection(address)) for _ in range(400)]
        with connect(server.url) as connection:
            initialize(connection)
        # The oldest had to make room, and knows it.
        crowd[0].settimeout(PATIENCE_S)
        assert crowd[0].recv(1) == b""


@contextlib.contextmanager
def posing_as(uid: int) -> Iterator[None]:
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can pose as another user")
def test_another_user_is_kept_off_a_unix_socket_by_its_mode_and_by_the_kernels_word() -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        path = Path(directory) / "paddock.sock"
        with serving("--listen", f"unix://{path}") as server:
            assert server.url == f"unix://{path}"
            assert path.stat().st_mode & 0o777 == 0o600
            with posing_as(NOBODY), socket.socket(socket.AF_UNIX) as stranger, pytest.raises(PermissionError):
                stranger.connect(str(path))
            path.chmod(0o666)
            with socket.socket(socket.AF_UNIX) as stranger:
                with posing_as(NOBODY):
                    stranger.connect(str(path))
                stranger.settimeout(PATIENCE_S)
                assert stranger.recv(1) == b""
            with socket.socket(socket.AF_UNIX) as owner:
                owner.connect(str(path))
                owner.sendall(b'{"id":1,"method":"initialize","params":{"clientName":"test"}}\n')
                owner.settimeout(PATIENCE_S)
                assert b"sessionId" in owner.recv(65536)


# ---------------------------------------------------------------- secrets

EVERYTHING = {"inherit": "all", "ignoreDefaultExcludes": True, "exclude": [], "set": {}, "includeOnly": []}


def environment_of_child(server: ServerProcess, token: str) -> str:
    """What a child has in its environment when it may inherit everything."""
    with connect(server.url, additional_headers=bearer(token)) as connection:
        initialize(connection)
        overlay = {"PADDOCK_TOKEN": token, "SEEN": "yes"}
        return run(connection, ["/usr/bin/env"], overlay, envPolicy=EVERYTHING).decode()


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("mode", ["capability-token", "signed-bearer-token"])
def test_no_secret_is_in_the_log_the_arguments_or_the_environment_of_a_child(
    mode: str, log_format: str, token_file: str, secret_file: str
) -> None:
    good, flags = {
        "capability-token": (TOKEN, ("--ws-token-file", token_file)),
        "signed-bearer-token": (signed({"exp": 4_000_000_000}), ("--ws-shared-secret-file", secret_file)),
    }[mode]
    bad = "wrong-" + good
    logging = ("--log-level", "debug", "--log-format", log_format)
    with serving("--ws-auth", mode, *flags, *logging, env={"PADDOCK_TOKEN": good}) as server:
        assert refusal(server.url, bad)[0] == 401
        assert refusal(server.url, f"{good} {good}")[0] == 401
        assert get(server.url, f"/?token={good}", {}) == 401
        assert get(server.url, f"/nowhere?token={good}", {"Origin": good}) == 403
        environment = environment_of_child(server, good)
        arguments = Path(f"/proc/{server.pid}/cmdline").read_text()
        log = server.stop()
    assert "SEEN=yes" in environment
    assert "request refused" in log
    for place in (environment, arguments, log):
        for secret in (good, good[:20], TOKEN, SECRET.decode()):
            assert secret not in place
