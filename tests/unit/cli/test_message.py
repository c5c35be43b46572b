"""What people are told beside the output."""

from __future__ import annotations

import io
import sys
from io import FileIO

import pytest

from paddock.cli.message import error_text, failed, line, tell
from paddock.errors import HandshakeRefused, InvalidParams, PaddockError


def test_a_message_keeps_its_lines_and_nothing_else_that_a_terminal_obeys() -> None:
    told = line("a server says \x1b]52;c;eA==\x07\r\x9b2J\u202e\nand more", "cp")
    assert told == "paddock cp: a server says \\u001b]52;c;eA==\\u0007\\r\\u009b2J\\u202e\nand more\n"


def test_a_message_that_can_not_be_written_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # Unbuffered below, so that nothing is left to be written when it is closed.
    with io.TextIOWrapper(FileIO("/dev/full", "w"), write_through=True) as full:
        monkeypatch.setattr(sys, "stderr", full)
        tell("it failed", "run")
        assert failed("it failed", "run", 42) == 42


def test_the_parameter_of_a_request_is_not_named_to_somebody_who_wrote_an_option() -> None:
    refused = InvalidParams("params.sandbox.profile: profile dve: there is no profile of this name")
    assert error_text(refused) == "profile dve: there is no profile of this name"
    assert error_text(InvalidParams("a profile: is too large")) == "a profile: is too large"
    assert error_text(PaddockError("params.x: in a file")) == "params.x: in a file"


def test_somebody_without_the_token_learns_where_it_goes() -> None:
    told = error_text(HandshakeRefused("ws://h:1", 401, "missing websocket bearer token"))
    assert told.endswith("bearer token; give the server's token with --token-file or in $PADDOCK_TOKEN")
    assert "$PADDOCK_TOKEN" not in error_text(HandshakeRefused("ws://h:1", 403, ""))
