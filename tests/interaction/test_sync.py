"""The blocking client, in every kind of program that may use it."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import paddock
import paddock.sync
from tests.processes import children_of, has_ended, watched

PATIENCE_S = 20.0


@pytest.fixture
def box() -> Iterator[paddock.sync.Box]:
    with paddock.sync.connect() as box:
        yield box


@contextmanager
def server_process() -> Iterator[str]:
    argv = [sys.executable, "-P", "-m", "paddock", "serve", "--listen", "ws://127.0.0.1:0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def test_a_command_runs_and_tells_what_it_wrote(box: paddock.sync.Box) -> None:
    done = box.run(["sh", "-c", "cat; echo err >&2; exit 3"], input=b"in")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"in", b"err\n")
    with pytest.raises(paddock.CommandFailed):
        box.run(["false"], check=True)
    assert box.has("processResize")
    assert box.is_connected


def test_a_conversation_with_a_process_that_stays(box: paddock.sync.Box) -> None:
    with box.start(["cat"], stdin=True, process_id="cat") as process:
        output = iter(process)
        for line in (b"one\n", b"two\n"):
            process.write(line)
            assert next(output).data == line
        assert [listed.process_id for listed in box.processes()] == ["cat"]
        process.close_stdin()
        assert list(output) == []
        assert process.wait(timeout_s=PATIENCE_S) == 0
        assert (process.state, process.exit_code, process.is_closed) == ("closed", 0, True)
        assert process.snapshot().stdout == b"one\ntwo\n"


def test_leaving_the_block_kills_the_process(box: paddock.sync.Box) -> None:
    with box.start(["sleep", "60"]) as process:
        pass
    assert process.wait() == 137


def test_an_iteration_may_be_left_in_the_middle(box: paddock.sync.Box) -> None:
    process = box.start(["seq", "100000"])
    for _output in process:
        break
    rest = b"".join(output.data for output in process.output(on_gap="raise"))
    assert rest.endswith(b"100000\n")
    assert process.wait() == 0


def test_threads_share_a_box(box: paddock.sync.Box) -> None:
    with ThreadPoolExecutor(8) as threads:
        runs = threads.map(lambda n: box.run(["echo", str(n)]).stdout, range(32))
        assert list(runs) == [b"%d\n" % n for n in range(32)]


async def test_it_works_where_an_event_loop_runs() -> None:
    with paddock.sync.connect() as box:
        assert box.run(["echo", "notebook"]).stdout == b"notebook\n"


def test_a_closed_box_says_so(box: paddock.sync.Box) -> None:
    process = box.start(["sleep", "60"])
    box.close()
    box.close()
    with pytest.raises(paddock.ConnectionLost, match="closed"):
        box.run(["true"])
    with pytest.raises(paddock.ConnectionLost, match="closed"):
        process.wait()


def test_a_session_is_left_and_taken_over() -> None:
    with server_process() as url:
        first = paddock.sync.connect(url)
        process = first.start(["sh", "-c", "echo one; read x; echo $x"], stdin=True)
        assert next(iter(process)).data == b"one\n"
        first.detach()
        with paddock.sync.connect(url, resume=first.session_id) as second:
            again = second.attach(process.process_id, after_seq=process.read_seq)
            assert again.communicate(b"two\n") == (b"two\n", b"")


def test_no_server_no_box_and_no_thread_left() -> None:
    with pytest.raises(paddock.ConnectError):
        paddock.sync.connect("ws://127.0.0.1:1")
    with pytest.raises(ValueError, match="needs the url"):
        paddock.sync.connect(resume="s")


def test_a_box_that_is_let_go_of_ends_its_private_server() -> None:
    before = set(children_of(os.getpid()))
    box = paddock.sync.connect()
    (server,) = set(children_of(os.getpid())) - before
    with watched(server) as pidfd:
        del box
        gc.collect()
        assert has_ended(pidfd, PATIENCE_S)


INTERRUPTED = """
import paddock.sync
with paddock.sync.connect() as box:
    try:
        box.run(["sh", "-c", "echo $$ > {fifo}; exec sleep 60"])
    except KeyboardInterrupt:
        print("interrupted", box.run(["echo", "on"]).stdout.decode())
"""


def test_ctrl_c_ends_the_command_and_not_the_box(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    argv = [sys.executable, "-c", INTERRUPTED.format(fifo=fifo)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as script:
        pid = int(fifo.read_text())
        with watched(pid) as pidfd:
            script.send_signal(signal.SIGINT)
            assert has_ended(pidfd, PATIENCE_S)
            output, _ = script.communicate(timeout=PATIENCE_S)
    assert output.split() == ["interrupted", "on"]
    assert script.returncode == 0
