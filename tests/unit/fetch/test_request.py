"""What may be sent for a client, and what of the server's environment may be put into it."""

from __future__ import annotations

import pytest

from paddock.errors import InvalidParams
from paddock.fetch.request import PROTECTED_VARIABLES, FetchRequest, Header, check_method, make_header


@pytest.mark.parametrize("method", ["", "B D", "G\nT", "GÉT", "a/b"])
def test_what_is_no_token_is_no_method(method: str) -> None:
    with pytest.raises(InvalidParams, match="method is invalid"):
        check_method(method)


@pytest.mark.parametrize("name", ["", "bad name", "x:", "é", "x\r\n"])
def test_what_is_no_token_is_no_header_name(name: str) -> None:
    with pytest.raises(InvalidParams, match="header name is invalid"):
        make_header(name, "x", None, {})


@pytest.mark.parametrize("value", ["a\nb", "a\r\nX: y", "\0", "\x7f"])
def test_a_value_with_control_characters_is_refused(value: str) -> None:
    with pytest.raises(InvalidParams, match="header value is invalid for X"):
        make_header("X", value, None, {})


def test_a_control_character_from_the_environment_is_refused_without_showing_the_value() -> None:
    with pytest.raises(InvalidParams) as refusal:
        make_header("X", "Bearer ", "TOKEN", {"TOKEN": "hunter2\n\n"})
    assert "hunter2" not in str(refusal.value)


def test_a_variable_completes_the_value_and_makes_it_secret() -> None:
    header = make_header("Authorization", "Bearer ", "TOKEN", {"TOKEN": "hunter2"})
    assert header == Header("Authorization", b"Bearer hunter2", is_secret=True)


@pytest.mark.parametrize(("environment", "problem"), [({}, "not set"), ({"TOKEN": ""}, "non-empty")])
def test_a_variable_without_a_value_is_refused(environment: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidParams, match=problem):
        make_header("X", "", "TOKEN", environment)


@pytest.mark.parametrize("variable", sorted(PROTECTED_VARIABLES))
def test_a_credential_of_the_host_is_never_sent_however_its_name_is_written(variable: str) -> None:
    for name in (variable, variable.lower()):
        with pytest.raises(InvalidParams, match="cannot use"):
            make_header("X", "", name, {name: "secret"})


@pytest.mark.parametrize("header", [Header("Content-Length", b"3"), Header("Transfer-Encoding", b"chunked")])
def test_a_header_that_lies_about_the_body_is_refused(header: Header) -> None:
    with pytest.raises(InvalidParams, match="does not fit the body"):
        FetchRequest("POST", "http://example.invalid/", (header,), b"hi")


def test_a_header_that_is_right_about_the_body_is_accepted() -> None:
    FetchRequest("POST", "http://example.invalid/", (Header("content-length", b"2"),), b"hi")
