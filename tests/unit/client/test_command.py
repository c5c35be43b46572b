from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from paddock.client.command import INHERIT, checked_argv, start_params
from paddock.errors import CapabilityMissing
from paddock.model.terminal import TerminalSize
from paddock.protocol.process import StartParams
from paddock.protocol.session import EnvironmentInfo
from tests.unit.client.scripted_server import EVERYTHING, environment


def params(*capabilities: str, argv: Any = ("ls",), **options: Any) -> StartParams:
    defaults: dict[str, Any] = {
        "cwd": None,
        "env": None,
        "extra_env": None,
        "stdin": False,
        "tty": False,
        "arg0": None,
        "keep_alive": False,
        "idempotency_key": None,
    }
    server = msgspec.convert(environment(capabilities), EnvironmentInfo)
    return start_params(server, "p", argv, **(defaults | options))


def test_without_further_wishes_the_process_inherits_directory_and_environment() -> None:
    plain = params()
    assert (str(plain.cwd), plain.env, plain.env_policy) == ("file:///srv", {}, INHERIT)
    assert not plain.is_terminal
    assert not plain.has_open_stdin


@pytest.mark.parametrize("tty", ["no", (24, 80), 1, None])
def test_a_terminal_that_is_neither_wanted_nor_sized_is_a_mistake(tty: Any) -> None:
    with pytest.raises(TypeError, match="give True, False or a size"):
        params(tty=tty)


def test_a_given_environment_is_the_whole_environment() -> None:
    exact = params(env={"A": "1"}, extra_env={"B": "2"})
    assert (exact.env, exact.env_policy) == ({"A": "1", "B": "2"}, None)


def test_extra_variables_go_on_top_of_the_inherited_ones() -> None:
    inheriting = params(extra_env={"B": "2"})
    assert (inheriting.env, inheriting.env_policy) == ({"B": "2"}, INHERIT)


@pytest.mark.parametrize(
    ("cwd", "sent"),
    [
        ("/tmp/a b", "file:///tmp/a%20b"),
        (Path("/tmp"), "file:///tmp"),
        ("file:///opt", "file:///opt"),
        ("/a/../b", "file:///a/../b"),
        ("/\udcff", "file:///%FF"),
    ],
)
def test_a_directory_is_sent_as_a_uri(cwd: str | Path, sent: str) -> None:
    assert str(params(cwd=cwd).cwd) == sent


def test_a_path_that_a_uri_would_change_is_sent_as_it_is_where_that_is_understood() -> None:
    assert str(params("absolutePaths", cwd="/link/../b").cwd) == "/link/../b"
    assert str(params("absolutePaths", cwd="/plain").cwd) == "file:///plain"


def test_a_relative_directory_is_refused_because_nobody_knows_relative_to_what() -> None:
    with pytest.raises(ValueError, match="'here' is not absolute"):
        params(cwd="here")


@pytest.mark.parametrize("argv", ["ls -l", b"ls"])
def test_a_bare_string_is_refused_with_the_way_out(argv: Any) -> None:
    with pytest.raises(TypeError, match=r"did you mean \['sh', '-c', "):
        checked_argv(argv)


def test_an_empty_command_and_an_argument_that_is_no_text_are_refused() -> None:
    with pytest.raises(ValueError, match="argv is empty"):
        checked_argv([])
    with pytest.raises(TypeError, match="which is not a str"):
        checked_argv(["ls", Path("/tmp")])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("option", "capability"),
    [
        ({"tty": TerminalSize(rows=5, cols=6)}, "processIo"),
        ({"keep_alive": True}, "keepAlive"),
        ({"idempotency_key": "k"}, "startIdempotency"),
    ],
)
def test_what_the_server_lacks_is_refused_before_anything_is_sent(
    option: dict[str, Any], capability: str
) -> None:
    with pytest.raises(CapabilityMissing, match=capability) as refusal:
        params(*(name for name in EVERYTHING if name != capability), **option)
    assert refusal.value.capability == capability
    params(capability, **option)


def test_a_terminal_of_a_given_size_says_so_both_ways() -> None:
    sized = params("processIo", tty=TerminalSize(rows=5, cols=6), stdin=True)
    assert sized.tty is True
    assert sized.io is not None
    assert sized.io.pty is not None
    assert (sized.io.pty.rows, sized.io.pty.cols) == (5, 6)
    assert sized.pipe_stdin is False
