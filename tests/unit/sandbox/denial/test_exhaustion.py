"""Which limit a command has run into; the words are those of real programs under the limits."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from paddock.model.cause import Cause
from paddock.model.profile import Limits
from paddock.sandbox.denial.exhaustion import End, exhausted, spent

LIMIT = 256 << 20
MEMORY = Limits(memory_bytes=LIMIT)
PROCESSES = Limits(processes=8)
FAILED = End(exit_code=1, death_signal=None, peak_memory_bytes=1 << 20)

OUT_OF_MEMORY = [
    b'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\nMemoryError\n',
    b"Out of memory!\n",
    b"tail: memory exhausted\n",
    b"\n#\n# Fatal process OOM in Failed to reserve virtual memory for CodeRange\n#\n\n",
    b"bash: xrealloc: cannot allocate 263892992 bytes\n",
    b"dd: memory exhausted by input buffer of size 1073741824 bytes (1.0 GiB)\n",
    b"terminate called after throwing an instance of 'std::bad_alloc'\n",
    b"memory allocation of 1073741824 bytes failed\n",
]
NO_PROCESS = [
    b"dash: 0: Cannot fork\n",
    b"bash: fork: retry: Resource temporarily unavailable\n",
    b"    self.pid = _fork_exec(\nBlockingIOError: [Errno 11] Resource temporarily unavailable\n",
    b"RuntimeError: can't start new thread\n",
    b"Error: spawn sleep EAGAIN\n",
]


@pytest.mark.parametrize("words", OUT_OF_MEMORY)
def test_a_command_that_says_so_has_run_out_of_memory(words: bytes) -> None:
    assert exhausted(MEMORY, FAILED, words) is Cause.MEMORY


@pytest.mark.parametrize("words", NO_PROCESS)
def test_a_command_that_says_so_has_run_out_of_processes(words: bytes) -> None:
    assert exhausted(PROCESSES, FAILED, words) is Cause.PROCESSES


def test_a_refusal_is_of_a_process_if_there_were_as_many_as_may_be() -> None:
    words = b"BlockingIOError: [Errno 11] Resource temporarily unavailable"
    assert exhausted(PROCESSES, FAILED, words) is None
    assert exhausted(PROCESSES, replace(FAILED, is_full=True), words) is Cause.PROCESSES


@pytest.mark.parametrize(("share", "cause"), [(0.95, Cause.MEMORY), (0.5, None)])
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_crash_is_for_want_of_memory_if_nearly_all_was_in_use(
    number: signal.Signals, share: float, cause: Cause | None
) -> None:
    assert exhausted(MEMORY, End(128 + number, number, int(share * LIMIT)), b"") is cause


@pytest.mark.parametrize(
    ("limits", "end", "words"),
    [
        (MEMORY, End(0, None, LIMIT), b"recovered from a MemoryError"),
        (MEMORY, End(1, None, LIMIT), b"1 test failed"),
        (MEMORY, End(137, signal.SIGKILL, LIMIT), b"MemoryError"),
        (MEMORY, End(143, signal.SIGTERM, LIMIT), b"out of memory"),
        (PROCESSES, FAILED, b"read: Resource temporarily unavailable"),
        (PROCESSES, FAILED, b"MemoryError"),
        (MEMORY, FAILED, b"Cannot fork"),
        (Limits(processes=1), End(3, None, 0, is_full=True), b"3 tests failed"),
    ],
)
def test_no_limit_is_named_without_evidence(limits: Limits, end: End, words: bytes) -> None:
    assert exhausted(limits, end, words) is None


@given(st.binary(), st.integers(0, 255))
def test_a_limit_that_was_not_set_is_never_named(words: bytes, exit_code: int) -> None:
    for said in (words, *OUT_OF_MEMORY, *NO_PROCESS):
        assert exhausted(Limits(), End(exit_code, None, LIMIT), said) is None


@pytest.mark.parametrize(("limits", "cause"), [(Limits(cpu_seconds=1), Cause.CPU), (Limits(), None)])
def test_the_kernel_says_when_the_time_is_up(limits: Limits, cause: Cause | None) -> None:
    assert spent(limits, End(128 + signal.SIGXCPU, signal.SIGXCPU, 0)) is cause


def test_the_kernel_says_when_all_together_ran_out_of_memory() -> None:
    starved = replace(FAILED, is_starved=True)
    assert spent(Limits(), starved) is Cause.MEMORY
    # A command that lost a process and succeeded all the same had enough.
    assert spent(Limits(), replace(starved, exit_code=0)) is None
