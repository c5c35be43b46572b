"""What `paddock serve --swerex` takes, and what it says where SWE-ReX is not installed."""

from __future__ import annotations

import sys

import pytest

from paddock.cli.main import main
from paddock.errors import PaddockError
from paddock.server.http_listener import websocket_url


def test_a_url_of_http_is_checked_like_one_of_a_websocket() -> None:
    assert websocket_url("http://127.0.0.1:8000/") == "ws://127.0.0.1:8000"
    assert websocket_url("https://10.0.0.7:8000") == "wss://10.0.0.7:8000"
    with pytest.raises(PaddockError, match=r"ws://127.0.0.1:1; expected http://"):
        websocket_url("ws://127.0.0.1:1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--swerex"], "pip install 'paddock-exec[swerex]'"),
        (["--workspace", "/tmp"], "go with --swerex"),
        (["--swerex", "--listen", "unix:///x"], "expected http://IP:PORT"),
    ],
)
def test_what_can_not_be_served_is_said(
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["paddock", "serve", *arguments])
    assert main() != 0
    assert said in capsys.readouterr().err
