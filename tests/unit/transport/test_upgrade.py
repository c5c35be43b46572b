"""The text of the opening handshake: what is read, what is refused, what is written."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paddock.errors import MessageTooLarge, ProtocolViolation
from paddock.transport import upgrade
from paddock.transport.http import Headers, HttpRequest, HttpResponse
from tests.unit.transport.raw_peer import UPGRADE, request

# The example of RFC 6455, 1.3.
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

AGREED = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": ACCEPT}


def head_of(text: bytes) -> bytes:
    """The head of a text that has nothing behind it."""
    parts = upgrade.split_answer(text) if text.startswith(b"HTTP/") else upgrade.split_request(text)
    assert parts is not None
    head, rest = parts
    assert rest == b""
    return head


def read(text: bytes) -> HttpRequest:
    """Read the head of a request."""
    return upgrade.read_request(head_of(text))


def answer(status: int = 101, headers: dict[str, str] | None = None) -> upgrade.AnswerHead:
    """The head of an answer, by default that of a proper upgrade."""
    return upgrade.AnswerHead(status, Headers((AGREED if headers is None else headers).items()))


# ---------------------------------------------------------------- where a head ends


@given(cuts=st.lists(st.integers(1, 40)), rest=st.binary(max_size=40))
@example(cuts=[1] * 200, rest=b"\r\n\r\n")
def test_a_head_is_the_same_however_it_is_cut(cuts: list[int], rest: bytes) -> None:
    text = request()
    received = bytearray()
    at = 0
    for cut in cuts:
        received += text[at : at + cut]
        at += cut
        if at < len(text):
            assert upgrade.split_request(received) is None
    received += text[at:] + rest
    assert upgrade.split_request(received) == (text.removesuffix(b"\r\n\r\n"), rest)


def test_a_head_may_be_as_long_as_the_limit_and_not_longer() -> None:
    start, end = b"GET / HTTP/1.1\r\nX: ", b"\r\n\r\n"
    longest = start + b"x" * (upgrade.HEAD_LIMIT_BYTES - len(start) - len(end)) + end
    assert upgrade.split_request(longest) == (longest.removesuffix(end), b"")
    assert upgrade.split_request(longest + b"more") == (longest.removesuffix(end), b"more")
    assert upgrade.split_request(longest[:-1]) is None
    with pytest.raises(MessageTooLarge):
        upgrade.split_request(longest.replace(start, start + b"x"))


@pytest.mark.parametrize("beginning", [b"\x16\x03\x01", b"\r\n", b" GET", b"\x00", b"\xff"])
def test_what_can_become_no_request_is_refused_at_its_first_byte(beginning: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="not HTTP"):
        upgrade.split_request(beginning)


def test_what_can_become_no_answer_is_refused_at_once_and_quoted() -> None:
    for beginning in (b"", b"H", b"HTTP/", b"HTTP/1.1 200 OK\r\n"):
        assert upgrade.split_answer(beginning) is None
    for beginning in (b"SSH-2.0-OpenSSH_9.9\r\n", b"H2", b"\x15\x03\x03"):
        with pytest.raises(ProtocolViolation, match=r"does not speak HTTP/1\.1"):
            upgrade.split_answer(beginning)
    with pytest.raises(ProtocolViolation, match=r"'220 mail\.example'$"):
        upgrade.split_answer(b"220 mail.example\r\n")


# ---------------------------------------------------------------- requests


def test_a_request_is_read_without_regard_to_the_case_of_names() -> None:
    seen = read(b"GET /a/b?c=/d HTTP/1.1\r\nhOsT:test\r\nX-Twice: \t one \r\nx-twice: two\r\nEmpty:\r\n\r\n")
    assert (seen.method, seen.path) == ("GET", "/a/b")
    assert dict(seen.headers) == {"host": "test", "x-twice": "one", "empty": ""}
    assert seen.headers["HOST"] == "test"
    assert seen.headers.all("X-TWICE") == ["one", "two"]
    assert "x-none" not in seen.headers


def test_a_value_may_hold_colons_tabs_and_bytes_of_any_language() -> None:
    seen = read(b"GET / HTTP/1.1\r\nHost: [::1]:80\r\nX: a\tb \xc3\xa9\r\n\r\n")
    assert seen.headers["Host"] == "[::1]:80"
    assert seen.headers["X"].encode("latin-1") == b"a\tb \xc3\xa9"


def test_a_request_does_not_show_its_headers_in_a_log() -> None:
    seen = read(b"GET / HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer hunter2\r\n\r\n")
    assert "hunter2" not in repr(seen)


@pytest.mark.parametrize(
    "text",
    [
        b"\r\n\r\n",
        b"\r\nGET / HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /\r\nHost: test\r\n\r\n",
        b"GET  HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET / HTTP/1.1 \r\nHost: test\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET\t/\tHTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET /a b HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET /\xe9 HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: test\r\n\r\n",
        b"get / HTTP/1.1\r\nHost: test\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: test\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: test\r\n\r\n",
        b"GET / HTTP/2\r\nHost: test\r\n\r\n",
        b"GET / http/1.1\r\nHost: test\r\n\r\n",
        b"GET / HTTP/1.1\nHost: test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nHost: other\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\n: no name\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : test\r\n\r\n",
        b"GET / HTTP/1.1\r\n Host: test\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nX: a\r\n b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nX: a\r\n\tb: c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nX(: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nX\xe9: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nX: a\rb\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nX: a\nb: c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nX: a\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nX: a\x7f\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nContent-Length: -0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_what_is_no_request_of_ours_is_refused(text: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        read(text)


def test_a_body_of_no_bytes_is_none() -> None:
    assert read(b"GET / HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n").path == "/"


@given(st.binary(max_size=200))
@example(b"GET / HTTP/1.1\r\nHost: test\r\nSec-WebSocket-Key: \xff\xff")
def test_bytes_that_mean_nothing_are_read_or_refused(noise: bytes) -> None:
    for head in (noise, b"GET / HTTP/1.1\r\nHost: test\r\n" + noise, b"HTTP/1.1 101 \r\n" + noise):
        with contextlib.suppress(ProtocolViolation):
            upgrade.switch_protocols(upgrade.read_request(head))
        with contextlib.suppress(ProtocolViolation):
            said = upgrade.read_answer(head)
            assert 0 <= upgrade.refusal_bytes(said) <= upgrade.REFUSAL_LIMIT_BYTES
            upgrade.check_switch(said, KEY)


@pytest.mark.parametrize(
    "line", [b"Authorization: Bearer hunter2\x00", b"Authorization Bearer hunter2", b"hunter2\x01: x"]
)
def test_a_refusal_quotes_no_header(line: bytes) -> None:
    with pytest.raises(ProtocolViolation) as caught:
        read(b"GET / HTTP/1.1\r\nHost: test\r\n" + line + b"\r\n\r\n")
    assert "hunter2" not in str(caught.value)


# ---------------------------------------------------------------- agreeing to an upgrade


def test_the_key_is_answered_as_the_standard_says() -> None:
    assert upgrade.accept_key(KEY) == ACCEPT


@pytest.mark.parametrize(
    "lines",
    [
        b"Connection: Upgrade\r\nUpgrade: websocket",
        b"connection: upgrade\r\nUPGRADE: WebSocket",
        b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket",
        b"Connection: ,upgrade\t,\r\nUpgrade: h2c, websocket",
        b"Connection: keep-alive\r\nConnection: Upgrade\r\nUpgrade: websocket",
    ],
)
def test_options_may_come_in_lists_and_in_any_case(lines: bytes) -> None:
    text = b"GET / HTTP/1.1\r\nHost: test\r\nSec-WebSocket-Version: 13\r\n%b\r\nSec-WebSocket-Key: %b\r\n\r\n"
    consent = head_of(upgrade.switch_protocols(read(text % (lines, KEY.encode()))))
    agreed = upgrade.read_answer(consent)
    assert agreed.status == 101
    assert agreed.headers == {name.lower(): value for name, value in AGREED.items()}
    upgrade.check_switch(agreed, KEY)


@pytest.mark.parametrize(
    "change",
    [
        {"Upgrade": "h2c"},
        {"Upgrade": "websocket/13"},
        {"Connection": "close"},
        {"Connection": "not-upgrade"},
        {"Sec-WebSocket-Version": "12"},
        {"Sec-WebSocket-Version": "13, 8"},
        {"Sec-WebSocket-Key": ""},
        {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAA"},
        {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA"},
        {"Sec-WebSocket-Key": "AAAAAAAAAAA AAAAAAAAAAA=="},
        {"Sec-WebSocket-Key": "é" * 24},
    ],
)
def test_a_request_that_asks_for_something_else_is_no_upgrade(change: dict[str, str]) -> None:
    with pytest.raises(ProtocolViolation):
        upgrade.switch_protocols(read(request("/", UPGRADE | change)))


@pytest.mark.parametrize("name", [name for name in UPGRADE if name != "Host"])
def test_a_request_that_leaves_something_out_is_no_upgrade(name: str) -> None:
    with pytest.raises(ProtocolViolation):
        upgrade.switch_protocols(read(request("/", {n: v for n, v in UPGRADE.items() if n != name})))


# ---------------------------------------------------------------- answers instead of an upgrade


def test_an_answer_says_how_long_it_is_and_that_it_is_the_last() -> None:
    text = upgrade.write_response(
        HttpResponse(status=401, body=b"who?", headers={"WWW-Authenticate": "Bearer"})
    )
    assert text == (
        b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\n"
        b"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 4\r\nConnection: close\r\n\r\nwho?"
    )


def test_an_empty_answer_has_a_length_and_no_type() -> None:
    text = upgrade.write_response(HttpResponse(status=404))
    assert text == b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def test_who_is_told_of_a_bad_request_learns_why_and_which_version_is_spoken() -> None:
    response = upgrade.bad_request(ProtocolViolation("too loud"))
    assert (response.status, response.body) == (400, b"too loud\n")
    assert response.headers == {"Sec-WebSocket-Version": "13"}


# ---------------------------------------------------------------- the client's side


def test_our_own_request_is_a_proper_one() -> None:
    text = upgrade.write_request("test:8080", "/a?b", KEY, {"Authorization": "Bearer x"})
    assert text.startswith(b"GET /a?b HTTP/1.1\r\nHost: test:8080\r\n")
    seen = read(text)
    assert seen.headers["Authorization"] == "Bearer x"
    upgrade.check_switch(upgrade.read_answer(head_of(upgrade.switch_protocols(seen))), KEY)


def test_a_host_that_the_caller_names_replaces_our_own() -> None:
    seen = read(upgrade.write_request("127.0.0.1:1", "/", KEY, {"host": "paddock.example"}))
    assert seen.headers.all("Host") == ["paddock.example"]


@pytest.mark.parametrize("line", ["HTTP/1.1 404 Not Found", "HTTP/1.1 404 ", "HTTP/1.1 404"])
def test_the_reason_beside_a_status_does_not_matter(line: str) -> None:
    assert upgrade.read_answer(f"{line}\r\nX: y".encode()).status == 404


@pytest.mark.parametrize(
    "line",
    [
        "",
        "SSH-2.0-OpenSSH_9.9",
        "HTTP/1.0 200 OK",
        "HTTP/1.1",
        "HTTP/1.1 20",
        "HTTP/1.1 2OO OK",
        "HTTP/1.1  200",
    ],
)
def test_what_is_no_answer_is_refused_with_its_first_line(line: str) -> None:
    with pytest.raises(ProtocolViolation, match=r"HTTP/1\.1") as caught:
        upgrade.read_answer(line.encode())
    assert repr(line) in str(caught.value)


def test_of_a_long_first_line_only_the_beginning_is_quoted() -> None:
    with pytest.raises(ProtocolViolation) as caught:
        upgrade.read_answer(b"x" * 10_000)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "change",
    [
        {"Upgrade": ""},
        {"Upgrade": "h2c"},
        {"Upgrade": "websocket, h2c"},
        {"Connection": "keep-alive"},
        {"Sec-WebSocket-Accept": ""},
        {"Sec-WebSocket-Accept": ACCEPT.lower()},
        {"Sec-WebSocket-Accept": upgrade.accept_key("AAAAAAAAAAAAAAAAAAAAAA==")},
        {"Sec-WebSocket-Extensions": "permessage-deflate"},
        {"Sec-WebSocket-Protocol": "chat"},
    ],
)
def test_a_server_that_does_not_agree_to_what_was_asked_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(ProtocolViolation, match="did not upgrade"):
        upgrade.check_switch(answer(headers=AGREED | change), KEY)


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (401, {"Content-Length": "12"}, 12),
        (401, {"Content-Length": "0"}, 0),
        (401, {"Content-Length": "4096"}, 4096),
        (401, {"Content-Length": "4097"}, 4096),
        (401, {"Content-Length": "9" * 10_000}, 4096),
        (401, {"Content-Length": "many"}, 4096),
        (401, {"Content-Length": "²"}, 4096),
        (401, {}, 4096),
        (401, {"Transfer-Encoding": "chunked"}, 0),
        (204, {}, 0),
        (304, {}, 0),
        (103, {}, 0),
    ],
)
def test_so_much_of_a_refusal_is_waited_for(status: int, headers: dict[str, str], expected: int) -> None:
    assert upgrade.refusal_bytes(answer(status, headers)) == expected
