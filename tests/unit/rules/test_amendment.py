"""Adding an "always allow"."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.errors import AmendmentRefused, RulesError
from paddock.model.decision import Action
from paddock.model.endpoint import NetworkProtocol
from paddock.rules.amendment import add_host_rule, add_rule, check_prefix, rule_line
from paddock.rules.evaluation import RulesFile
from paddock.rules.evaluator import evaluate
from paddock.rules.loader import load_sound_policy


def test_an_added_rule_allows_the_command(tmp_path: Path) -> None:
    path = tmp_path / "config" / "default.rules"

    assert add_rule(path, ["git", "status"])

    assert load_sound_policy([path]).decide(["git", "status", "-s"]).action is Action.ALLOW
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_added_rule_about_a_host_is_the_last_and_told_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "hosts.rules"
    path.write_text("# mine")
    host = "a.test", NetworkProtocol.HTTPS_CONNECT

    lines = [
        add_host_rule(path, *host, Action.ALLOW),
        add_host_rule(path, *host, Action.ALLOW),
        add_host_rule(path, *host, Action.FORBIDDEN, 'not "now"'),
        add_host_rule(path, "b.test", NetworkProtocol.HTTP, Action.ALLOW, "two\nlines"),
        add_host_rule(path, *host, Action.ALLOW),
    ]

    assert lines == [2, 2, 3, 4, 5]
    found = [(rule.origin.line, rule.host, rule.action) for rule in load_sound_policy([path]).network_rules]
    assert found == [
        (2, "a.test", Action.ALLOW),
        (3, "a.test", Action.FORBIDDEN),
        (4, "b.test", Action.ALLOW),
        (5, "a.test", Action.ALLOW),
    ]


def test_a_rule_is_added_once(tmp_path: Path) -> None:
    path = tmp_path / "default.rules"
    assert add_rule(path, ["ls"])
    assert not add_rule(path, ["ls"])

    assert path.read_text() == 'prefix_rule(pattern=["ls"], decision="allow")\n'


def test_a_rule_is_added_once_whatever_ends_a_line_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "default.rules"
    assert add_rule(path, ["a\u2028b\x85"])
    assert not add_rule(path, ["a\u2028b\x85"])

    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert not add_rule(path, ["a\u2028b\x85"])


ADD_WITHOUT_ROOM = """
import resource, sys
from pathlib import Path
from paddock.rules.amendment import add_rule
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
add_rule(Path(sys.argv[1]), ["git", "status"])
"""


@pytest.mark.parametrize("room_bytes", [0, 10])
def test_without_room_for_the_whole_line_the_file_stays_as_it_was(tmp_path: Path, room_bytes: int) -> None:
    path = tmp_path / "default.rules"
    add_rule(path, ["ls"])
    before = path.read_bytes()

    command = [sys.executable, "-c", ADD_WITHOUT_ROOM, str(path), str(len(before) + room_bytes)]
    outcome = subprocess.run(command, capture_output=True, text=True)

    assert "can't add to" in outcome.stderr
    assert path.read_bytes() == before


def test_a_last_line_without_an_end_is_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "default.rules"
    path.write_text('prefix_rule(["a"])')
    add_rule(path, ["ls"])

    assert path.read_text().splitlines() == [
        'prefix_rule(["a"])',
        'prefix_rule(pattern=["ls"], decision="allow")',
    ]


def test_many_who_add_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "default.rules"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: add_rule(path, [f"p{number % 20}"]), range(80)))

    assert sorted(path.read_text().splitlines()) == sorted(rule_line([f"p{number}"]) for number in range(20))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=10), min_size=1, max_size=4))
def test_a_line_says_exactly_its_words(prefix: list[str]) -> None:
    evaluated = evaluate(RulesFile(path="x.rules", text=rule_line(prefix)), {})

    assert evaluated.problem is None
    assert [place for rule in evaluated.rules for place in rule.pattern] == [(word,) for word in prefix]
    assert "\n" not in rule_line(prefix)


@pytest.mark.parametrize(
    "line",
    [
        "bash",
        "/bin/bash -c",
        "zsh -lc",
        "bash -o pipefail",
        "python3",
        "python3.12 -c",
        "python3 -u",
        "node -e",
        "perl",
        "sudo",
        "sudo systemctl status",
        "env",
        "env A=1",
        "env A=1 bash",
        "env -u X make",
        "timeout 5 sh -c",
        "xargs",
        "find . -name x",
        "ssh host",
        "git",
        "git -C /x",
        "rm",
        "rm -rf",
        "npm run",
        "expect",
        "uv",
        "uv run",
        "",
    ],
)
def test_what_would_allow_nearly_anything_is_refused(line: str, tmp_path: Path) -> None:
    path = tmp_path / "default.rules"

    with pytest.raises(AmendmentRefused, match="is not added"):
        add_rule(path, line.split())

    assert not path.exists()


@pytest.mark.parametrize(
    "line",
    [
        "ls",
        "git status",
        "python3 -m pytest",
        "python3 build.py",
        "bash -c ls",
        "npm run test",
        "timeout 5s make test",
        "env A=1 cargo test",
        "xargs grep",
        "rm build.log",
    ],
)
def test_what_says_what_it_does_is_not_refused(line: str) -> None:
    check_prefix(line.split())


def test_a_file_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff")

    with pytest.raises(RulesError, match="is not UTF-8 text; nothing was added"):
        add_rule(tmp_path / "file", ["ls"])
    with pytest.raises(RulesError, match="can't add to"):
        add_rule(tmp_path, ["ls"])
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(RulesError, match="not a regular file"):
        add_rule(tmp_path / "fifo", ["ls"])


def test_a_word_that_is_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AmendmentRefused, match="not UTF-8"):
        add_rule(tmp_path / "default.rules", ["cat", "a\udcff"])
