"""What is longer than its bound is refused, by both ways of reading, and no error repeats all of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from paddock.excerpt import EXCERPT_CHARS, excerpt
from paddock.protocol import bound
from paddock.protocol.call import Call
from paddock.protocol.codec import CodecLimits
from paddock.protocol.envelope import MAX_ERROR_CHARS
from paddock.rpc import serving
from paddock.rpc.questions import OpenQuestions, QuestionLimits
from paddock.rpc.serving import Event, Refusal, ServingConnection

LONGEST_REFUSAL_BYTES = 4 * MAX_ERROR_CHARS
FAR_TOO_LONG = "x" * (1024 * 1024)


@pytest.fixture(params=["plain", "ordinary"])
def connection(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ServingConnection:
    """One that is ready, for each way of reading."""
    if request.param == "ordinary":
        monkeypatch.setattr(serving, "read_plain", lambda data, limits: None)
    made = ServingConnection("test", CodecLimits())
    send(made, "initialize", {"clientName": "t"})
    made.greeted(OpenQuestions(QuestionLimits(1)))
    made.receive(b'{"method":"initialized"}')
    return made


def send(made: ServingConnection, method: str, params: Any, request_id: Any = 1) -> Event:
    message = {"id": request_id, "method": method, "params": params}
    return made.receive(json.dumps(message, separators=(",", ":")).encode())


def refused(event: Event) -> tuple[int, int]:
    """Id and code of an error."""
    assert isinstance(event, Refusal)
    assert len(event.reply) <= LONGEST_REFUSAL_BYTES
    reply = json.loads(event.reply)
    return reply["id"], reply["error"]["code"]


def start(**params: Any) -> tuple[str, dict[str, Any]]:
    return "process/start", {
        "processId": "p",
        "argv": ["/bin/true"],
        "cwd": "/",
        "env": {},
        "tty": False,
    } | params


def confined(entries: int, roots: int = 0) -> dict[str, Any]:
    entry = {"path": {"type": "path", "path": "/x"}, "access": "read"}
    return {
        "permissions": {
            "type": "managed",
            "file_system": {"type": "restricted", "entries": [entry] * entries},
            "network": "restricted",
        },
        "windowsSandboxLevel": "disabled",
        "workspaceRoots": ["/x"] * roots,
    }


def fetch(**params: Any) -> tuple[str, dict[str, Any]]:
    return "http/request", {"method": "GET", "url": "http://x/", "requestId": "r"} | params


def path(chars: int) -> str:
    return "/" + "a" * (chars - 1)


NAME, PATH, URL = bound.MAX_NAME_CHARS, bound.MAX_PATH_CHARS, bound.MAX_URL_CHARS
HEADERS, ENTRIES = bound.MAX_HEADERS, bound.MAX_ENTRIES
WORDS, POSITIONS = bound.MAX_RULE_WORDS, bound.MAX_RULE_POSITIONS


VARIABLES, VARIABLE_CHARS = bound.MAX_VARIABLE_PATTERNS, bound.MAX_VARIABLE_PATTERN_CHARS


def inheriting(exclude: list[str], include_only: list[str]) -> dict[str, Any]:
    return {
        "inherit": "all",
        "ignoreDefaultExcludes": False,
        "exclude": exclude,
        "set": {},
        "includeOnly": include_only,
    }


def rule(pattern: list[list[str]], **more: Any) -> dict[str, Any]:
    return {"pattern": pattern, "action": "prompt", "path": "/r", "line": 1, **more}


BOUNDED: dict[str, tuple[Callable[[int], tuple[str, dict[str, Any]]], int]] = {
    "process of a start": (lambda n: start(processId="é" * n), NAME),
    "idempotency key": (lambda n: start(idempotencyKey="k" * n), NAME),
    "name of a profile": (lambda n: start(sandbox={"profile": "p" * n}), NAME),
    "process of a read": (lambda n: ("process/read", {"processId": "p" * n}), NAME),
    "session": (lambda n: ("process/read", {"processId": "p", "sessionId": "s" * n}), NAME),
    "process of a wait": (lambda n: ("process/wait", {"processId": "p" * n}), NAME),
    "write": (lambda n: ("process/write", {"processId": "p", "chunk": "", "writeId": "w" * n}), NAME),
    "working directory": (lambda n: start(cwd=path(n)), PATH),
    "path": (lambda n: ("fs/getMetadata", {"path": path(n)}), PATH),
    "uri": (lambda n: ("fs/getMetadata", {"path": "file://" + path(n - 7)}), PATH),
    "entries": (lambda n: start(sandbox=confined(n)), ENTRIES),
    "roots": (lambda n: start(sandbox=confined(1, n)), ENTRIES),
    "rules": (lambda n: start(intercept={"rules": [rule([["git"]])] * n}), ENTRIES),
    "words of a rule": (lambda n: start(intercept={"rules": [rule([["git"] * n])]}), WORDS),
    "places of a rule": (lambda n: start(intercept={"rules": [rule([["git"]] * n)]}), POSITIONS),
    "exceptions from a rule": (
        lambda n: start(intercept={"rules": [rule([["git"]], unless=[[["git"]]] * n)]}),
        POSITIONS,
    ),
    "excluded variables": (lambda n: start(envPolicy=inheriting(["A*"] * n, [])), VARIABLES),
    "included variables": (lambda n: start(envPolicy=inheriting([], ["A*"] * n)), VARIABLES),
    "pattern of a variable": (lambda n: start(envPolicy=inheriting(["A" * n], [])), NAME),
    "patterns of variables together": (
        lambda n: start(
            envPolicy=inheriting(["A" * NAME] * 20, ["A" * NAME] * (n // NAME - 20) + ["A" * (n % NAME)])
        ),
        VARIABLE_CHARS,
    ),
    "hosts of a proxy": (
        lambda n: start(
            networkProxy={"proxy": {"enabled": True, "domains": {f"h{i}": "allow" for i in range(n)}}}
        ),
        bound.MAX_HOSTS,
    ),
    "broken files": (lambda n: start(intercept={"brokenFiles": ["/x"] * n}), ENTRIES),
    "missing paths": (lambda n: ("fs/watchMissing", {"watchId": 1, "missing": ["/x"] * n}), ENTRIES),
    "method of http": (lambda n: fetch(method="G" * n), NAME),
    "stream of a body": (lambda n: fetch(requestId="r" * n), NAME),
    "url": (lambda n: fetch(url="http://" + "x" * (n - 7)), URL),
    "headers": (lambda n: fetch(headers=[{"name": "a", "value": "b"}] * n), HEADERS),
    "name of a header": (lambda n: fetch(headers=[{"name": "a" * n, "value": "b"}]), NAME),
}


@pytest.mark.parametrize("what", BOUNDED)
def test_what_is_longer_than_its_bound_is_refused(connection: ServingConnection, what: str) -> None:
    request, longest = BOUNDED[what]

    assert isinstance(send(connection, *request(longest)), Call)
    assert refused(send(connection, *request(longest + 1))) == (1, -32602)


@pytest.mark.parametrize("name", ["notifications", "requests"])
def test_a_client_names_a_bounded_number_of_features(name: str) -> None:
    def greet(count: int) -> Event:
        params = {"clientName": "t", "capabilities": {name: ["process/started"] * count}}
        return send(ServingConnection("test", CodecLimits()), "initialize", params)

    assert isinstance(greet(bound.MAX_FEATURES), Call)
    assert refused(greet(bound.MAX_FEATURES + 1)) == (1, -32602)


@pytest.mark.parametrize("character", ["i", "é"])
def test_a_request_with_a_long_id_is_malformed(connection: ServingConnection, character: str) -> None:
    longest = character * NAME

    event = send(connection, "environment/status", None, longest)

    assert isinstance(event, Call)
    assert event.id == longest
    too_long = send(connection, "environment/status", None, longest + character)
    assert refused(too_long) == (-1, -32600)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"id": 1, "method": FAR_TOO_LONG}, -32601),
        ({"method": FAR_TOO_LONG}, -32600),
        ({"id": 1, "method": "fs/getMetadata", "params": {"path": FAR_TOO_LONG}}, -32602),
        ({"id": 1, "method": "fs/getMetadata", "params": {"path": "/\0" + FAR_TOO_LONG}}, -32602),
        ({"id": 1, "method": "process/read", "params": {"processId": FAR_TOO_LONG}}, -32602),
        ({"id": 1, "method": "process/signal", "params": {"processId": "p", "signal": FAR_TOO_LONG}}, -32602),
        ({"id": 1, "method": "environment/status", "params": {FAR_TOO_LONG: 1}}, -32602),
        (
            {"id": 1, "method": "fs/open", "params": {"handleId": "h", "path": "/", "mode": FAR_TOO_LONG}},
            -32602,
        ),
        (
            {
                "id": 1,
                "method": "fs/getMetadata",
                "params": {
                    "path": "/",
                    "sandbox": confined(0)
                    | {
                        "permissions": {
                            "type": "managed",
                            "network": "restricted",
                            "file_system": {
                                "type": "restricted",
                                "entries": [
                                    {
                                        "path": {"type": "glob_pattern", "pattern": "\0" + FAR_TOO_LONG},
                                        "access": "deny",
                                    }
                                ],
                            },
                        }
                    },
                },
            },
            -32602,
        ),
    ],
)
def test_an_error_repeats_only_the_beginning(
    connection: ServingConnection, message: dict[str, Any], code: int
) -> None:
    assert refused(connection.receive(json.dumps(message).encode()))[1] == code


def test_a_duplicate_key_is_named_by_its_beginning(connection: ServingConnection) -> None:
    key = json.dumps(FAR_TOO_LONG)

    assert refused(connection.receive(f"{{{key}:1,{key}:2}}".encode())) == (-1, -32600)


def test_an_excerpt_tells_how_much_is_missing() -> None:
    assert excerpt("a" * EXCERPT_CHARS) == "a" * EXCERPT_CHARS
    assert excerpt("a" * (EXCERPT_CHARS + 3)) == "a" * EXCERPT_CHARS + "… (+3)"
