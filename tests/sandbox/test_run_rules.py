"""`paddock run --rules` as its users see it: programs are denied, let out, and asked about at a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import termios
from pathlib import Path

import pytest

from tests.operators import PADDOCK, PATIENCE_S

RULES = """\
prefix_rule(pattern=["touch"], decision="allow")
prefix_rule(pattern=["uname"], decision="forbidden", justification="it is nobody's business")
prefix_rule(pattern=["mkdir"], decision="prompt", justification="who knows")
"""

ASKED = b"[d]eny (and why)? "


@pytest.fixture(name="rules")
def file_of_rules(new_directory: Path) -> Path:
    directory = new_directory / "rules"
    directory.mkdir()
    (directory / "team.rules").write_text(RULES)
    return directory


@pytest.fixture(name="work")
def working_directory(new_directory: Path) -> Path:
    work = new_directory / "work"
    work.mkdir()
    return work


def command(rules: Path, script: str) -> list[str]:
    return [*PADDOCK, "run", "--profile", ":workspace", "--rules", str(rules), "--", "sh", "-c", script]


def test_rules_decide_and_the_end_sums_up(rules: Path, work: Path, new_directory: Path) -> None:
    script = f"touch {new_directory}/out; uname; mkdir {new_directory}/made; echo $?; exit 3"
    done = subprocess.run(
        command(rules, script),
        cwd=work,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        stdin=subprocess.DEVNULL,
        # Without a terminal nobody can be asked.
        start_new_session=True,
    )
    assert (done.returncode, done.stdout) == (3, "1\n"), done.stderr
    assert (new_directory / "out").exists()
    assert not (new_directory / "made").exists()
    assert f"paddock run: escalated /usr/bin/touch {new_directory}/out (" in done.stderr
    assert "paddock run: denied /usr/bin/uname (" in done.stderr
    assert "nobody is asked" in done.stderr


@pytest.mark.parametrize(
    ("typed", "is_made"),
    [
        (b"e\r", True),
        (b"escalate\r", True),
        (b"r\r", False),
        (b"d no thanks\r", False),
        (b"x\re\r", True),
        (b"dx\x7f no thanks\r", False),
    ],
)
def test_the_user_is_asked_at_the_terminal(
    rules: Path, work: Path, new_directory: Path, typed: bytes, is_made: bool
) -> None:
    script = f"mkdir {new_directory}/made; echo status $?; read x; echo heard $x"
    child, terminal = _at_terminal(work, command(rules, script))
    shown = _until(terminal, ASKED)
    assert b"/usr/bin/mkdir" in shown
    assert b"who knows" in shown
    assert str(work).encode() in shown
    os.write(terminal, typed)
    shown += _until(terminal, b"status ")
    # What is typed from now on is for the command.
    os.write(terminal, b"hello\r")
    shown += _until(terminal, b"heard hello")
    _to_end(terminal)
    assert os.waitpid(child, 0)[1] == 0
    assert (new_directory / "made").exists() is is_made
    if typed.startswith(b"d"):
        assert b"Execution denied: no thanks (" in shown


def test_what_the_user_always_allows_is_not_asked_again(rules: Path, work: Path, new_directory: Path) -> None:
    arguments = command(rules, f"mkdir {new_directory}/$0 && echo made $0")
    child, terminal = _at_terminal(work, [*arguments, "first"])
    shown = _until(terminal, ASKED)
    assert f"[a]lways for `/usr/bin/mkdir {new_directory}/first ...`".encode() in shown
    os.write(terminal, b"a\r")
    _to_end(terminal)
    assert os.waitpid(child, 0)[1] == 0
    rule = f'prefix_rule(pattern=["/usr/bin/mkdir", "{new_directory}/first"], decision="allow")\n'
    assert (rules / "default.rules").read_text() == rule

    (new_directory / "first").rmdir()
    child, terminal = _at_terminal(work, [*arguments, "first"])
    assert ASKED not in _to_end(terminal)
    assert os.waitpid(child, 0)[1] == 0
    assert (new_directory / "first").is_dir()


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (r"\033[>q", b"\x1bP>|XTerm(370)\x1b\\"),
        (r"\033[6n", b"\x1b[1;1R"),
        (r"\033]2;escalate\007\033[21t", b"\x1b]lescalate\x1b\\\r"),
    ],
    ids=["version", "cursor", "title"],
)
def test_command_can_not_answer_through_the_terminal(
    rules: Path, work: Path, new_directory: Path, query: str, answer: bytes
) -> None:
    # The program is asked about while the command goes on, and asks the terminal.
    script = (
        f"mkdir {new_directory}/made & for i in 1 2 3; do printf '{query}'; sleep 0.1; done; echo END; wait"
    )
    child, terminal = _at_terminal(work, command(rules, script))
    _until(terminal, ASKED)
    # What the command wrote before has been answered by now; what it writes meanwhile waits.
    os.write(terminal, answer * 3)
    os.write(terminal, b"d\r")
    shown = _to_end(terminal)
    assert shown.index(b"denied") >= 0
    os.waitpid(child, 0)
    assert not (new_directory / "made").exists()


def test_nothing_of_the_command_is_shown_while_a_question_is_open(
    rules: Path, work: Path, new_directory: Path
) -> None:
    go, ready = work / "go", work / "ready"
    os.mkfifo(go)
    os.mkfifo(ready)
    script = f"mkdir {new_directory}/made & cat go; echo FORGED; : > ready; wait"
    child, terminal = _at_terminal(work, command(rules, script))
    _until(terminal, ASKED)
    go.write_text("")
    assert ready.read_text() == ""
    # The command has written it, and now the question is answered.
    os.write(terminal, b"d\r")
    shown = _to_end(terminal)
    os.waitpid(child, 0)
    assert shown.index(b"d\r\n") < shown.index(b"FORGED")
    assert not (new_directory / "made").exists()


def test_question_stands_alone_on_the_screen(rules: Path, work: Path, new_directory: Path) -> None:
    # A scroll region of one line, and a question of the command's own above it.
    forged = r"\033[2J\033[1;1Hpaddock run: /usr/bin/true\033[24;24r\033[24;1H"
    child, terminal = _at_terminal(work, command(rules, f"printf '{forged}'; mkdir {new_directory}/made"))
    before, _, question = _until(terminal, ASKED).partition(b"paddock run: /usr/bin/mkdir")
    # The region is taken back, what stood there scrolls away, and the screen is cleared.
    assert before.endswith(b"\r\n" * 24 + b"\x1b[H\x1b[2J")
    assert b"\x1b[r" in before.rpartition(b"\x1b[24;24r")[2]
    assert b"/usr/bin/mkdir: [r]un" in question
    os.write(terminal, b"d\r")
    _to_end(terminal)
    os.waitpid(child, 0)


def test_ctrl_c_denies_and_reaches_the_command(rules: Path, work: Path, new_directory: Path) -> None:
    script = f"trap 'echo TRAPPED; exit 7' INT; mkdir {new_directory}/made & read x"
    child, terminal = _at_terminal(work, command(rules, script))
    _until(terminal, ASKED)
    os.write(terminal, b"\x03")
    assert b"TRAPPED" in _to_end(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert not (new_directory / "made").exists()


def _at_terminal(work: Path, arguments: list[str]) -> tuple[int, int]:
    child, terminal = pty.fork()
    if not child:
        termios.tcsetwinsize(0, (24, 80))
        os.chdir(work)
        os.execv(arguments[0], arguments)
    return child, terminal


def _to_end(terminal: int) -> bytes:
    shown = b""
    while data := _read(terminal):
        shown += data
    return shown


def _until(terminal: int, text: bytes) -> bytes:
    shown = b""
    while text not in shown:
        data = _read(terminal)
        assert data, shown
        shown += data
    return shown


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
