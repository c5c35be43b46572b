"""Plain HTTP on the websocket's port: who is refused, and what the others get."""

from __future__ import annotations

import pytest

from paddock.server.auth import CapabilityToken
from paddock.server.http import RequestFilter, host_name, is_loopback
from paddock.transport.http import Headers, HttpRequest, HttpResponse

OPEN = RequestFilter()
LOCKED = RequestFilter(credential=CapabilityToken.of("sesame"), clock=lambda: 0)
PATHS = ["/", "/healthz", "/readyz", "/nowhere"]


def ask(request_filter: RequestFilter, path: str, **headers: str | None) -> HttpResponse | None:
    """The answer to a request; a header that is None is left out."""
    given = {"Host": "127.0.0.1:4100"} | headers
    return request_filter.answer(
        HttpRequest("GET", path, Headers((n, value) for n, value in given.items() if value is not None))
    )


def status_of(request_filter: RequestFilter, path: str, **headers: str | None) -> int | None:
    response = ask(request_filter, path, **headers)
    return response.status if response is not None else None


@pytest.mark.parametrize("request_filter", [OPEN, LOCKED])
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_checks_are_answered_to_everybody(request_filter: RequestFilter, path: str) -> None:
    assert status_of(request_filter, path) == 200


def test_server_that_can_start_nothing_is_alive_and_not_ready() -> None:
    unready = RequestFilter(unreadiness=lambda: "the disk is full")
    assert status_of(unready, "/healthz") == 200
    response = ask(unready, "/readyz")
    assert response is not None
    assert (response.status, response.body) == (503, b"no command can be started: the disk is full\n")


def test_the_root_is_upgraded() -> None:
    assert status_of(OPEN, "/") is None


def test_other_paths_are_not_found() -> None:
    assert status_of(OPEN, "/nowhere") == 404


# ---------------------------------------------------------------- credentials


def test_the_root_needs_the_credential() -> None:
    refusal = ask(LOCKED, "/")
    assert refusal is not None
    assert (refusal.status, refusal.body) == (401, b"missing websocket bearer token")
    assert refusal.content_type == "text/plain; charset=utf-8"
    assert refusal.headers == {"WWW-Authenticate": "Bearer"}
    assert status_of(LOCKED, "/", Authorization="Bearer wrong") == 401
    assert status_of(LOCKED, "/", Authorization="Bearer sesame") is None


def test_a_page_needs_the_same_credential_and_is_not_made_without() -> None:
    made = []

    def page() -> HttpResponse:
        made.append("page")
        return HttpResponse(status=200, body=b"numbers")

    locked = RequestFilter(credential=LOCKED.credential, pages={"/metrics": page})
    assert status_of(locked, "/metrics") == 401
    assert made == []
    assert ask(locked, "/metrics", Authorization="Bearer sesame") == HttpResponse(status=200, body=b"numbers")
    assert status_of(RequestFilter(pages={"/metrics": page}), "/metrics") == 200


# ---------------------------------------------------------------- web pages


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", ["null", "https://example.org", "", "http://127.0.0.1:4100"])
def test_web_pages_are_refused_everywhere(path: str, origin: str) -> None:
    assert status_of(OPEN, path, Origin=origin) == 403
    assert status_of(LOCKED, path, Origin=origin, Authorization="Bearer sesame") == 403


def test_pages_of_an_allowed_origin_come_in() -> None:
    request_filter = RequestFilter(allowed_origins=frozenset({"https://app.example"}))
    assert status_of(request_filter, "/", Origin="https://app.example") is None
    assert status_of(request_filter, "/", Origin="HTTPS://App.Example") is None
    assert status_of(request_filter, "/", Origin="https://app.example.evil.example") == 403
    assert status_of(request_filter, "/", Origin="null") == 403


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:4100", "127.0.0.1.evil.example", "10.0.0.1", ""]
)
def test_a_host_that_is_not_this_machine_is_refused_everywhere_on_loopback(path: str, host: str) -> None:
    assert status_of(OPEN, path, Host=host) == 403
    assert status_of(LOCKED, path, Host=host, Authorization="Bearer sesame") == 403


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:1",
        "127.8.9.10:65535",
        "localhost",
        "LocalHost:4100",
        "[::1]",
        "[::1]:4100",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]:4100",
    ],
)
def test_every_name_of_this_machine_is_a_host(host: str) -> None:
    assert status_of(OPEN, "/", Host=host) is None


@pytest.mark.parametrize("path", PATHS)
def test_a_request_without_host_is_malformed(path: str) -> None:
    assert status_of(OPEN, path, Host=None) == 400


def test_a_host_that_the_settings_allow_comes_in() -> None:
    request_filter = RequestFilter(allowed_hosts=frozenset({"box.example"}))
    assert status_of(request_filter, "/", Host="Box.example:4100") is None
    assert status_of(request_filter, "/", Host="evil.example") == 403


def test_a_listener_that_others_can_reach_has_any_name() -> None:
    assert status_of(RequestFilter(is_loopback=False), "/", Host="box.example") is None


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("A.b", "a.b"),
        ("a.b:80", "a.b"),
        ("[::1]", "::1"),
        ("[::1]:80", "::1"),
        ("", None),
        (":80", None),
        ("a.b:", None),
        ("a.b:x", None),
        ("a.b:²", None),
        ("::1", None),
        ("[a.b]", None),
        ("[::1", None),
        ("::1]:80", None),
        ("a:b:80", None),
    ],
)
def test_a_host_is_taken_apart_or_malformed(host: str, name: str | None) -> None:
    assert host_name(host) == name


@pytest.mark.parametrize(
    "host", ["localhost", "127.1", "2130706433", "0x7f.1", "0.0.0.0", "::", "::ffff:1.2.3.4"]
)
def test_only_literal_loopback_addresses_are_loopback(host: str) -> None:
    assert not is_loopback(host)
