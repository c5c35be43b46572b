"""`paddock audit` on logs that were written, tampered with, and are being written."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from pathlib import Path

import pytest

from paddock.audit.chain import ORIGIN, seal
from paddock.audit.event import (
    Approval,
    Decision,
    Denial,
    Event,
    Lost,
    NetworkDecision,
    SessionOpened,
    Signal,
    StartFailed,
    encode,
)
from paddock.audit.query import record_of
from paddock.audit.segment import TIP_NAME
from paddock.cli.audit_table import what
from paddock.cli.main import main
from tests.operators import PADDOCK, PATIENCE_S
from tests.unit.audit.logs import TIME_NS, a_start, an_exit, kill, open_log, segments, stamped


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    directory = tmp_path / "log"
    log = open_log(directory, segment_bytes=600)
    for name in ("one", "two", "three"):
        log.append(stamped(a_start(name, "a b\x1b[2J")))
        log.append(stamped(an_exit(name, 3)))
    log.close()
    return directory


def output(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> str:
    assert main(["audit", *map(str, arguments)]) == status
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def test_records_are_shown_as_a_table_that_plays_no_tricks(
    log_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header, opened, start, exit_, *rest = output(capsys, "show", log_path).splitlines()

    assert header.split() == ["SEQ", "TIME", "KIND", "SESSION", "PROCESS", "WHAT"]
    assert opened.split()[2] == "opened"
    assert start.split(None, 5) == [
        *("2", "2026-03-04T05:06:07.890Z", "start", "0f3a9c2e", "one"),
        "ls $'a b\\x1b[2J'",
    ]
    assert exit_.endswith("status 3")
    assert len(rest) == 5


@pytest.mark.parametrize(
    ("flags", "seqs"),
    [
        (("--kind", "exit"), [3, 5, 7]),
        (("--kind", "start", "--kind", "exit", "--process", "t"), [4, 5, 6, 7]),
        (("--session", "0f3a9c2e-52a8"), [2, 3, 4, 5, 6, 7]),
        (("--session", "ffff"), []),
        (("--since", "2026-03-05"), [1, 8]),
        (("--since", "2026-03-04T06:06:07+01:00", "--tail", "2"), [7, 8]),
        (("--since", "1h"), [1, 8]),
        (("--tail", "0"), []),
    ],
)
def test_records_can_be_chosen(
    log_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], seqs: list[int]
) -> None:
    lines = output(capsys, "show", "--json", *flags, log_path).splitlines()

    assert [json.loads(line)["seq"] for line in lines] == seqs


def test_what_is_written_later_is_followed_into_the_next_segment(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    log = open_log(directory, segment_bytes=1)
    command = [*PADDOCK, "audit", "show", "--json", "--follow", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        assert json.loads(follower.stdout.readline())["kind"] == "opened"
        for name in ("one", "two"):
            log.append(stamped(a_start(name)))
            assert json.loads(follower.stdout.readline())["process"] == name
        follower.kill()
    log.close()
    assert len(segments(directory)) == 4


def test_a_sound_log_is_verified_and_its_last_record_can_be_expected_later(
    log_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict, last = output(capsys, "verify", log_path).splitlines()

    assert verdict == "verified: 8 records, 1 to 8"
    anchor = last.removeprefix("last record: ")
    assert output(capsys, "verify", "--expect", anchor, log_path).splitlines()[0] == verdict
    other = f"9{anchor[1:]}"
    assert other in output(capsys, "verify", "--expect", other, log_path, status=1)


def test_a_log_that_can_only_be_read_is_verified(log_path: Path) -> None:
    for path in log_path.iterdir():
        path.chmod(0o444)
    log_path.chmod(0o555)

    done = subprocess.run(
        [*PADDOCK, "audit", "verify", str(log_path)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    # Or only root could clean up.
    log_path.chmod(0o700)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_tampered_log_is_told_with_the_place(log_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    segment = segments(log_path)[1]
    segment.write_bytes(segment.read_bytes().replace(b'"ls"', b'"rm"', 1))

    problem, verdict, _ = output(capsys, "verify", log_path, status=1).splitlines()
    assert problem.startswith(f"{segment.name}:")
    assert verdict.startswith("NOT what was written")

    found = json.loads(output(capsys, "verify", "--json", log_path, status=1))
    assert found["sound"] is False
    assert found["problems"][0]["segment"] == segment.name


def test_what_is_no_record_is_told_and_left_out(log_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with segments(log_path)[-1].open("ab") as file:
        file.write(b"rubbish\n")

    assert main(["audit", "show", "--kind", "closed", str(log_path)]) == 0
    printed = capsys.readouterr()
    assert "closed" in printed.out
    assert "is not a record; see paddock audit verify" in printed.err


def test_a_log_of_a_killed_server_is_verified_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "log"
    kill(open_log(directory))
    with segments(directory)[0].open("ab") as file:
        file.write(b'{"seq"')

    note, verdict, _ = output(capsys, "verify", directory).splitlines()

    assert note.startswith("note: audit-00000001.jsonl:2: the last line is unfinished")
    assert verdict == "verified: 1 record, 1 to 1"


def test_all_segments_are_exported_as_one_file(log_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = b"".join(segment.read_bytes() for segment in segments(log_path))

    assert output(capsys, "export", log_path).encode() == written
    rows = list(csv.DictReader(io.StringIO(output(capsys, "export", "--format", "csv", log_path))))
    assert [row["seq"] for row in rows] == [str(seq) for seq in range(1, 9)]
    assert rows[2]["exit_code"] == "3"


def test_an_export_of_a_tampered_log_fails_and_says_why(
    log_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (log_path / TIP_NAME).unlink()

    assert main(["audit", "export", str(log_path)]) == 1
    assert "there is no tip" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "--kind", "nonsense", "."),
        ("show", "--since", "yesterday", "."),
        ("verify", "--expect", "17", "."),
        ("export", "--format", "xml", "."),
        (),
    ],
)
def test_a_wrong_command_line_is_refused(arguments: tuple[str, ...]) -> None:
    assert main(["audit", *arguments]) == 2


@pytest.mark.parametrize("verb", ["show", "verify", "export"])
def test_a_directory_without_a_log_is_said(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", verb, str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"paddock audit {verb}: audit log {tmp_path}: there is no audit log\n"


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (SessionOpened(client="c", peer="unix", resumed=True), "resumed by c at unix"),
        (SessionOpened(client="", peer="unix", operator=True), "opened by a client at unix (operator)"),
        (StartFailed(reason="no such file"), "no such file"),
        (Lost(reason="the spawner is gone"), "the spawner is gone"),
        (Signal(signal="SIGINT", connection=4), "SIGINT from connection 4"),
        (Decision(argv=("rm", "x"), cwd="/", decision="forbidden"), "forbidden: rm x"),
        (Approval(argv=("rm", "x"), cwd="/", approved=False, by="me"), "refused by me: rm x"),
        (Denial(operation="write", subject="/etc/passwd"), "write /etc/passwd"),
        (NetworkDecision(host="h", port=443, protocol="tcp", decision="allow"), "allow: tcp h:443"),
    ],
)
def test_every_kind_is_told_in_a_few_words(event: Event, text: str) -> None:
    record = record_of(seal(ORIGIN, TIME_NS, encode(event))[0])

    assert record is not None
    assert what(record) == text


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"kind": "exit", "exit_code": 3, "cause": "exit"}, "status 3"),
        (
            {"kind": "exit", "exit_code": 137, "signal": 9, "cause": "terminated"},
            "killed by SIGKILL (terminated)",
        ),
        ({"kind": "exit", "exit_code": 124, "cause": "wall"}, "status 124 (wall)"),
        (
            {"kind": "denial", "operation": "write", "subject": "/etc/x", "reason": "/ = read"},
            "write /etc/x: / = read",
        ),
        ({"kind": "denial", "operation": "network", "certain": False}, "perhaps network"),
    ],
)
def test_ends_and_denials_are_told_in_a_few_words(record: dict[str, object], text: str) -> None:
    assert what(record) == text
