"""The way out that people are told of a denial works: each test does what the line says, and tries again."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.operators import PADDOCK, PATIENCE_S

WAYS = {
    "run": ["run"],
    "run, traced": ["run", "--trace"],
    "sandbox, traced": ["sandbox", "--trace"],
}
GIT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
    "LC_ALL": "C.UTF-8",
}
GRANT = re.compile(r'; a profile with ("[^"]+" = "[^"]+"|network = "[^"]+") allows it')

each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def confined(way: list[str], profile: str, command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PADDOCK, *way, "--profile", profile, "--", "sh", "-c", command],
        cwd=cwd,
        env=os.environ | GIT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def hints(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return what the lines of Paddock say should be granted; each once, in order."""
    told = [line for line in done.stderr.splitlines() if ": the sandbox " in line]
    return list(dict.fromkeys(hint for line in told for hint in GRANT.findall(line)))


def obeyed(granted: list[str], directory: Path) -> str:
    """Write the profile that the hints ask for."""
    files = "\n".join(hint for hint in granted if hint.startswith('"'))
    network = "\n".join(hint for hint in granted if not hint.startswith('"'))
    profile = directory / "obeyed.toml"
    profile.write_text(
        'default_permissions = "mine"\n[permissions.mine]\nextends = ":workspace"\n'
        f"{network}\n[permissions.mine.filesystem]\n{files}\n"
    )
    return str(profile)


@pytest.fixture
def workspace(new_directory: Path) -> Path:
    """A project, and beside it a directory with a file that is not its own."""
    project, outside = new_directory / "project", new_directory / "outside"
    project.mkdir()
    outside.mkdir()
    (outside / "file").write_text("old\n")
    return project


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("way", "command", "grant"),
    [
        *((way, "git commit --allow-empty -qm x", "{project}/.git") for way in WAYS.values()),
        (["run"], "rm ../outside/file", "{outside}"),
        (["run", "--trace"], "echo new > ../outside/file", "{outside}/file"),
        *(
            (way, "mkdir -p {outside}/cache/tool && touch {outside}/cache/tool/x", "{outside}")
            for way in WAYS.values()
        ),
    ],
)
def test_denied_file_is_written_once_what_the_hint_says_is_granted(
    workspace: Path, way: list[str], command: str, grant: str
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=workspace, env=os.environ | GIT, check=True)
    command, wanted = (
        text.format(project=workspace, outside=workspace.parent / "outside") for text in (command, grant)
    )
    denied = confined(way, ":workspace", command, workspace)
    assert (denied.returncode != 0, hints(denied)) == (True, [f'"{wanted}" = "write"']), denied.stderr
    done = confined(way, obeyed(hints(denied), workspace), command, workspace)
    assert (done.returncode, hints(done)) == (0, []), done.stderr


@each_way
def test_hard_link_that_no_profile_makes_possible_gets_no_hint(workspace: Path, way: list[str]) -> None:
    (workspace / "file").touch()
    denied = confined(way, ":workspace", "ln file ../outside/link", workspace)
    assert (denied.returncode, hints(denied)) == (1, [])
    assert "the sandbox denied writing" in denied.stderr
    outside = f'"{workspace.parent}/outside" = "write"'
    granted = confined(way, obeyed([outside], workspace), "ln file ../outside/link", workspace)
    assert (granted.returncode, "cross-device" in granted.stderr) == (1, True)


@each_way
def test_repository_is_made_once_what_the_hint_says_is_granted(workspace: Path, way: list[str]) -> None:
    denied = confined(way, ":workspace", "git init -q", workspace)
    assert (denied.returncode != 0, hints(denied)) == (True, [f'"{workspace}/.git" = "write"'])
    assert not (workspace / ".git").exists()
    done = confined(way, obeyed(hints(denied), workspace), "git init -q", workspace)
    assert (done.returncode, (workspace / ".git/HEAD").exists()) == (0, True), done.stderr


@each_way
def test_server_of_the_host_is_reached_once_what_the_hint_says_is_granted(
    workspace: Path, way: list[str], web: str
) -> None:
    command = f"curl -sS --noproxy '*' {web}"
    denied = confined(way, ":workspace", command, workspace)
    assert denied.returncode == 7
    assert 'a profile with network = "enabled" allows it, and "loopback" among its own' in denied.stderr
    done = confined(way, obeyed(['network = "enabled"'], workspace), command, workspace)
    assert (done.returncode, done.stderr.count("denied network")) == (0, 0), done.stderr


def test_own_server_is_reached_on_the_loopback_that_the_hint_names(workspace: Path) -> None:
    script = (
        "import socket, socketserver; server = socketserver.TCPServer(('127.0.0.1', 0), None);"
        "socket.create_connection(server.server_address)"
    )
    command = f'python3 -c "{script}"'
    denied = confined(["run"], ":workspace", command, workspace)
    assert (denied.returncode, "among its own processes" in denied.stderr) == (1, True), denied.stderr
    done = confined(["run"], obeyed(['network = "loopback"'], workspace), command, workspace)
    assert done.returncode == 0, done.stderr


def test_no_way_out_is_told_where_none_would_work(workspace: Path) -> None:
    # HEAD would make a repository of the project, whatever the profile grants; bubblewrap is in /usr.
    for command in ("touch HEAD", "touch /usr/paddock-hint", "mkdir /paddock-hint"):
        denied = confined(["run", "--trace"], ":workspace", command, workspace)
        assert "the sandbox denied writing" in denied.stderr
        assert "allows it" not in denied.stderr
