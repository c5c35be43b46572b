"""`paddock cp`, `ls` and `cat` as their users see them: real programs, a real server."""

from __future__ import annotations

import argparse
import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from unicodedata import combining, east_asian_width

import pytest

from paddock.cli.location import Location, parse_location
from paddock.cli.progress import ProgressBar, fitted, progress_line
from tests.operators import PADDOCK, PATIENCE_S
from tests.serving import serving

MIB = 1 << 20
PAUSE_S = 0.01


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as server:
        yield server.url


def paddock(*arguments: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [*PADDOCK, *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=PATIENCE_S, check=False)


def unread(pipe: int) -> int:
    """The number of bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def worked(*arguments: object, stdin: bytes = b"") -> bytes:
    done = paddock(*arguments, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


# --- locations --------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "url", "path"),
    [
        ("ws://127.0.0.1:4100:/x", "ws://127.0.0.1:4100", "/x"),
        ("wss://build.example:/a:/b", "wss://build.example", "/a:/b"),
        ("ws://[::1]:80:/x y", "ws://[::1]:80", "/x y"),
        ("unix:///run/p.sock:/x", "unix:///run/p.sock", "/x"),
        ("/plain", None, "/plain"),
        ("relative:/x", None, "relative:/x"),
        ("-", None, "-"),
    ],
)
def test_a_location_names_a_server_and_a_path(text: str, url: str | None, path: str) -> None:
    assert parse_location(text) == Location(url, path)


@pytest.mark.parametrize("text", ["", "ws://127.0.0.1:4100", "ws://127.0.0.1:4100:x", "unix:///run/p.sock:"])
def test_a_location_without_a_path_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"URL:/path|names nothing"):
        parse_location(text)


# --- cp ---------------------------------------------------------------------


def test_a_file_goes_there_and_back(url: str, tmp_path: Path) -> None:
    (tmp_path / "here").write_bytes(os.urandom(3 * MIB))
    (tmp_path / "here").chmod(0o755)
    worked("cp", tmp_path / "here", f"{url}:{tmp_path}/there")
    worked("cp", f"{url}:{tmp_path}/there", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "here").read_bytes()
    assert os.access(tmp_path / "there", os.X_OK)
    assert os.access(tmp_path / "back", os.X_OK)


def test_into_a_directory_it_goes_under_its_own_name(url: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "there").mkdir()
    worked("cp", tmp_path / "file", f"{url}:{tmp_path}/there/")
    worked("cp", f"{url}:{tmp_path}/file", tmp_path / "there" / "..")
    assert (tmp_path / "there" / "file").read_text() == "x"


def test_a_directory_needs_r_and_comes_whole(url: str, tmp_path: Path) -> None:
    (tmp_path / "here" / "sub").mkdir(parents=True)
    (tmp_path / "here" / "sub" / "file").write_text("x")
    for source, destination in (
        (f"{tmp_path}/here", f"{url}:{tmp_path}/there"),
        (f"{url}:{tmp_path}/here", f"{tmp_path}/there"),
        (f"{url}:{tmp_path}/here", f"{url}:{tmp_path}/there"),
    ):
        refused = paddock("cp", source, destination)
        assert (refused.returncode, refused.stdout) == (1, b"")
        assert refused.stderr.endswith(b"is a directory; add -r to copy it\n")
    worked("cp", "-r", tmp_path / "here", f"{url}:{tmp_path}/there")
    worked("cp", "-r", f"{url}:{tmp_path}/there", f"{url}:{tmp_path}/copy")
    worked("cp", "-r", f"{url}:{tmp_path}/copy", tmp_path / "back")
    assert (tmp_path / "back" / "sub" / "file").read_text() == "x"


def test_files_and_trees_pass_between_two_servers(url: str, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_bytes(os.urandom(2 * MIB))
    (tmp_path / "tree" / "file").chmod(0o755)
    with serving() as other:
        worked("cp", "-r", f"{url}:{tmp_path}/tree", f"{other.url}:{tmp_path}/copy")
        worked("cp", f"{url}:{tmp_path}/tree/file", f"{other.url}:{tmp_path}/single")
    expected = (tmp_path / "tree" / "file").read_bytes()
    for copy in (tmp_path / "copy" / "file", tmp_path / "single"):
        assert (copy.read_bytes() == expected, os.access(copy, os.X_OK)) == (True, True)


def test_standard_streams_take_the_place_of_files(url: str, tmp_path: Path) -> None:
    data = os.urandom(2 * MIB + 5)
    worked("cp", "-", f"{url}:{tmp_path}/file", stdin=data)
    assert worked("cp", f"{url}:{tmp_path}/file", "-") == data


def test_an_interrupted_copy_does_not_wait_for_more_input(url: str, tmp_path: Path) -> None:
    command = [*PADDOCK, "cp", "-", f"{url}:{tmp_path}/new"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as copying:
        assert copying.stdin is not None
        os.write(copying.stdin.fileno(), b"some")
        # It has taken that, and waits for more.
        for _ in range(int(PATIENCE_S / PAUSE_S)):
            if unread(copying.stdin.fileno()) == 0:
                break
            sleep(PAUSE_S)
        copying.send_signal(signal.SIGINT)
        assert copying.wait(PATIENCE_S) == 130
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("a", "b"), 2, "neither side is on a server; write one as URL:/path"),
        (("{url}", "b"), 2, "write URL:/path"),
        (("{url}:/no/such/file", "b"), 1, "No such file or directory"),
        (("no-such-file", "{url}:/tmp/x"), 1, "no-such-file' on this host: No such file or directory"),
        (("/etc/hostname", "ws://127.0.0.1:1:/x"), 1, "connection refused"),
        (("/etc/hostname", "{url}:/no/such/directory/x"), 1, "No such file or directory"),
    ],
)
def test_what_goes_wrong_is_told_in_one_sentence(
    url: str, arguments: tuple[str, str], status: int, message: str
) -> None:
    done = paddock("cp", *(argument.format(url=url) for argument in arguments))
    assert (done.returncode, done.stdout) == (status, b"")
    assert message in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    if status == 1:
        assert done.stderr.count(b"\n") == 1


# --- ls and cat -------------------------------------------------------------


def test_a_directory_is_listed_by_name(url: str, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_text("12345")
    (tmp_path / ".hidden").write_text("")
    (tmp_path / os.fsdecode(b"\xff")).write_text("")
    assert worked("ls", f"{url}:{tmp_path}").splitlines()[:2] == [b"a", b"b/"]
    assert worked("ls", "-a", f"{url}:{tmp_path}").splitlines()[0] == b".hidden"
    header, first, *_ = worked("ls", "-l", f"{url}:{tmp_path}").decode().splitlines()
    assert header.split() == ["KIND", "SIZE", "MODIFIED", "NAME"]
    assert (first.split()[:2], first.split()[-1]) == (["file", "5"], "a")
    listed = json.loads(worked("ls", "--json", f"{url}:{tmp_path}"))
    assert (listed[0]["name"], listed[0]["size"], listed[0]["isFile"]) == ("a", 5, True)


def test_without_a_url_this_host_is_meant(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    assert worked("ls", tmp_path) == b"file\n"
    assert worked("cat", tmp_path / "file") == b"here"


def test_several_files_come_out_one_after_the_other(url: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\0")
    (tmp_path / "b").write_bytes(b"second")
    done = paddock("cat", f"{url}:{tmp_path}/a", f"{url}:{tmp_path}/missing", f"{url}:{tmp_path}/b")
    assert (done.returncode, done.stdout) == (1, b"\xff\0second")
    assert b"missing" in done.stderr
    assert done.stderr.count(b"\n") == 1


# --- progress ---------------------------------------------------------------


def test_the_line_tells_how_far_it_is() -> None:
    assert progress_line("x", 50, 200, 2.0) == "x  [######..................]  25%  50 B of 200 B  25 B/s"
    assert progress_line("x", 2_500_000, None, 2.0) == "x  2.5 MB  1.2 MB/s"
    assert progress_line("x", 0, 0, 0.0) == "x  0 B"


@pytest.mark.parametrize("name", ["file", "a-very-long-name-of-a-file" * 5, "名前" * 30, "e\u0301" * 60])
@pytest.mark.parametrize("columns", [1, 20, 39, 79, 200])
def test_the_line_never_wraps(name: str, columns: int) -> None:
    line = fitted(progress_line(name, 500, 1000, 1.0), columns)
    assert (
        sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in line) <= columns
    )
    if columns >= 79:
        assert line.endswith("500 B of 1.0 kB  500 B/s")


def test_nothing_is_drawn_where_nobody_looks() -> None:
    stream = io.StringIO()
    with ProgressBar(stream, "x") as bar:
        bar.update(1, 2)
    assert stream.getvalue() == ""


def test_a_terminal_sees_progress_and_is_left_clean() -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    clock = iter([0.0, 0.05, 0.2, 0.25])
    stream = Screen()
    with ProgressBar(stream, "x", clock=lambda: next(clock)) as bar:
        for done in (1, 2, 3):
            bar.update(done, 4)
    assert stream.getvalue() == "\r\x1b[Kx  [############............]  50%  2 B of 4 B  10 B/s\r\x1b[K"
