"""A log that is not what was written is found out, and the place is named."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.audit.chain import ORIGIN, Anchor, seal
from paddock.audit.event import encode
from paddock.audit.segment import TIP_NAME, verify
from paddock.audit.tip import Tip, encode_tip
from paddock.audit.verification import SHOWN_PROBLEMS, LinePosition, Verifier
from paddock.errors import AuditLogError
from tests.unit.audit.logs import (
    TIME_NS,
    a_start,
    contents,
    kill,
    open_log,
    restore,
    segments,
    write_runs,
)

TAMPERINGS = 500
"""Of a log that was closed and of one whose server was killed: a thousand in all."""

TORN = b'{"seq":26,"time":"2026-03-'

Files = dict[str, bytes]


def make_log(directory: Path, *, is_closed: bool) -> None:
    """Several segments, one of them with a line that a killed server did not finish."""
    log = open_log(directory)
    write_runs(log, 12)
    kill(log)
    with segments(directory)[-1].open("ab") as file:
        file.write(TORN)
    log = open_log(directory)
    write_runs(log, 12)
    if is_closed:
        log.close()
    else:
        kill(log)


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    directory = tmp_path / "log"
    make_log(directory, is_closed=True)
    return directory


def torn_line(directory: Path) -> tuple[Path, int]:
    """Where the unfinished line stands, counted from 0."""
    (position,) = (
        (segment, index)
        for segment in segments(directory)
        for index, line in enumerate(split(segment.read_bytes()))
        if line == TORN + b"\n"
    )
    return position


def test_a_log_that_was_left_alone_verifies_with_its_unfinished_line_named(log_path: Path) -> None:
    report = verify(log_path)
    segment, index = torn_line(log_path)

    assert report.problems == []
    assert [str(note) for note in report.notes] == [
        f"{segment.name}:{index + 1}: 26 bytes of a line that was not written to its end"
    ]
    assert (report.records, report.first_seq, report.last.seq) == (51, 1, 51)


# --- tampering at random ----------------------------------------------------


def split(data: bytes) -> list[bytes]:
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def a_segment(rng: random.Random, files: Files) -> str:
    return rng.choice([name for name in files if name != TIP_NAME])


def change_byte(rng: random.Random, files: Files) -> None:
    name = rng.choice(list(files))
    data = bytearray(files[name])
    data[rng.randrange(len(data))] ^= rng.randint(1, 255)
    files[name] = bytes(data)


def insert_byte(rng: random.Random, files: Files) -> None:
    name = a_segment(rng, files)
    at = rng.randrange(len(files[name]))
    files[name] = files[name][:at] + rng.choice([b" ", b"\n", b"x"]) + files[name][at:]


def remove_lines(rng: random.Random, files: Files) -> None:
    name = a_segment(rng, files)
    lines = split(files[name])
    begin = rng.randrange(len(lines))
    del lines[begin : begin + rng.randint(1, 3)]
    files[name] = b"".join(lines)


def repeat_line(rng: random.Random, files: Files) -> None:
    name = a_segment(rng, files)
    lines = split(files[name])
    lines.insert(rng.randint(0, len(lines)), rng.choice(lines))
    files[name] = b"".join(lines)


def swap_lines(rng: random.Random, files: Files) -> None:
    name = a_segment(rng, files)
    lines = split(files[name])
    if len(lines) > 1:
        one, other = rng.sample(range(len(lines)), 2)
        lines[one], lines[other] = lines[other], lines[one]
    files[name] = b"".join(lines)


def move_line(rng: random.Random, files: Files) -> None:
    source, target = a_segment(rng, files), a_segment(rng, files)
    lines = split(files[source])
    line = lines.pop(rng.randrange(len(lines)))
    files[source] = b"".join(lines)
    lines = split(files[target])
    lines.insert(rng.randint(0, len(lines)), line)
    files[target] = b"".join(lines)


def cut_end(rng: random.Random, files: Files) -> None:
    name = max(name for name in files if name != TIP_NAME)
    files[name] = files[name][: rng.randrange(len(files[name]))]


def remove_file(rng: random.Random, files: Files) -> None:
    del files[rng.choice(list(files))]


def swap_segments(rng: random.Random, files: Files) -> None:
    one, other = a_segment(rng, files), a_segment(rng, files)
    files[one], files[other] = files[other], files[one]


def forge_line(rng: random.Random, files: Files) -> None:
    name = a_segment(rng, files)
    lines = split(files[name])
    previous = Anchor(rng.randint(0, 60), rng.choice(lines)[-67:-3].decode("ascii", "replace"))
    line, _ = seal(previous, TIME_NS, encode(a_start("forged")))
    lines.insert(rng.randint(0, len(lines)), line)
    files[name] = b"".join(lines)


KINDS: list[Callable[[random.Random, Files], None]] = [
    change_byte,
    insert_byte,
    remove_lines,
    repeat_line,
    swap_lines,
    move_line,
    cut_end,
    remove_file,
    swap_segments,
    forge_line,
]


@pytest.mark.unmeasured
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])
def test_random_tamperings_are_all_found(tmp_path: Path, is_closed: bool) -> None:
    directory = tmp_path / "log"
    make_log(directory, is_closed=is_closed)
    written = contents(directory)
    rng = random.Random(7)
    for number in range(TAMPERINGS):
        tampering = KINDS[number % len(KINDS)]
        files = dict(written)
        while files == written:
            tampering(rng, files)
        restore(directory, files)
        assert verify(directory).problems, f"number {number}: {tampering.__name__}"
    restore(directory, written)
    assert verify(directory).is_sound


# --- what is said about it --------------------------------------------------


def problems(log_path: Path) -> list[str]:
    return [str(problem) for problem in verify(log_path).problems]


def rewrite(path: Path, change: Callable[[list[bytes]], None]) -> None:
    lines = split(path.read_bytes())
    change(lines)
    path.write_bytes(b"".join(lines))


def test_a_changed_line_is_named(log_path: Path) -> None:
    segment = segments(log_path)[1]
    rewrite(
        segment,
        lambda lines: lines.__setitem__(2, lines[2].replace(b'"ls"', b'"rm"').replace(b":0,", b":1,")),
    )

    (problem,) = problems(log_path)

    assert problem == f"{segment.name}:3: this line was changed, or the line after it, {segment.name}:4"


def test_a_changed_last_line_is_named_by_the_tip(log_path: Path) -> None:
    segment = segments(log_path)[-1]
    rewrite(segment, lambda lines: lines.__setitem__(-1, lines[-1].replace(b"closed", b"opened")))

    (problem,) = problems(log_path)

    assert problem.startswith(
        f"{segment.name}:{len(split(segment.read_bytes()))}: this line is not the record"
    )


def test_removed_lines_are_counted_where_they_were(log_path: Path) -> None:
    segment = segments(log_path)[0]
    rewrite(segment, lambda lines: lines.__delitem__(slice(2, 5)))

    assert problems(log_path) == [f"{segment.name}:3: records 3 to 5 are missing before this line"]


def test_a_line_that_is_no_record_is_named_once(log_path: Path) -> None:
    segment = segments(log_path)[0]
    rewrite(segment, lambda lines: lines.__setitem__(4, b"lost\n"))

    assert problems(log_path) == [f"{segment.name}:5: this line is not a record: it was changed or put in"]


def test_a_removed_beginning_is_missed_unless_it_was_taken_away_on_purpose(log_path: Path) -> None:
    segments(log_path)[0].unlink()

    (problem,) = problems(log_path)
    assert "what came before is missing" in problem
    assert verify(log_path, is_pruned=True).is_sound


def test_a_removed_end_is_missed(log_path: Path) -> None:
    segments(log_path)[-1].unlink()

    (problem,) = problems(log_path)
    assert problem.startswith("the record at the tip, 51:")


def test_a_removed_unfinished_line_is_missed(log_path: Path) -> None:
    segment, index = torn_line(log_path)
    rewrite(segment, lambda lines: lines.__delitem__(index))

    (problem,) = problems(log_path)
    assert problem.startswith(f"{segment.name}:{index + 1}: the unfinished line that stood before this one")


def test_a_new_chain_is_only_found_with_an_anchor_that_was_kept_elsewhere(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    log = open_log(directory)
    write_runs(log, 3)
    kept = log.last
    write_runs(log, 3)
    log.close()
    assert verify(directory, [kept]).is_sound

    anchor, lines = ORIGIN, b""
    for number in range(20):
        line, anchor = seal(
            anchor, TIME_NS, encode(a_start(f"forged{number}")), segment=None if number else 1
        )
        lines += line
    restore(directory, {"audit-00000001.jsonl": lines, TIP_NAME: encode_tip(Tip(anchor, True))})

    assert verify(directory).is_sound
    (problem,) = verify(directory, [kept]).problems
    assert str(problem) == (
        f"audit-00000001.jsonl:{kept.seq}: this line is not the expected record, {kept}: it was changed"
    )


def test_a_log_without_its_tip_will_do_when_its_end_is_known(log_path: Path) -> None:
    last = verify(log_path).last
    (log_path / TIP_NAME).unlink()

    assert not verify(log_path).is_sound
    assert verify(log_path, [last]).is_sound


def test_records_after_the_end_of_a_closed_log_are_a_problem(log_path: Path) -> None:
    line, _ = seal(verify(log_path).last, TIME_NS, encode(a_start("forged")))
    with segments(log_path)[-1].open("ab") as file:
        file.write(line)

    assert problems(log_path)[0].endswith("1 records come after the log was closed")


def test_so_many_problems_that_nobody_would_read_them_are_counted() -> None:
    verifier = Verifier(Tip())
    for number in range(SHOWN_PROBLEMS + 5):
        verifier.feed(LinePosition(1, number + 1), b"x\n")

    report = verifier.finish()

    assert (len(report.problems), report.untold) == (SHOWN_PROBLEMS, 5)


def test_a_directory_without_a_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AuditLogError, match="there is no audit log"):
        verify(tmp_path)
    with pytest.raises(AuditLogError, match="can't be read: No such file"):
        verify(tmp_path / "missing")
