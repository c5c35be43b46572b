"""Every parser of native/ takes damaged input without a fault that a sanitizer can see."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.native.sanitizer import DRIVERS, NATIVE, Failure, build_driver, needs_sanitizers, run_driver
from tests.native.seeds import seeds_of

COUNTS = {
    "frames": 60_000,
    "scan": 100_000,
    "values": 50_000,
    "spawner": 12_000,
    "init": 12_000,
    "janitor": 1_500,
    "stub": 50_000,
    "wrapper": 50_000,
    "text": 100_000,
    "bare": 50_000,
}
"""Changed inputs; some seconds for each driver."""

SOAK_S = 120
"""For each driver."""

Build = Callable[..., Path]


class Fault(NamedTuple):
    """A fault to be planted into a copy of native/."""

    driver: str
    file: str
    right: str
    wrong: str


FAULTS = [
    Fault(
        "frames", "frame.h", "received < head_bytes || received - head_bytes < bytes", "received < head_bytes"
    ),
    Fault("frames", "frame.h", "at + sizeof blocks <= bytes", "at < bytes"),
    Fault("scan", "scan.h", "if (scan->at == scan->end || *scan->at != sign)", "if (*scan->at != sign)"),
    Fault("scan", "scan.h", "if (count == MAX_KEYS || !take_string", "if (!take_string"),
    Fault("values", "value_count.h", "return at == end || (*at", "return (*at"),
    Fault("values", "value_count.h", "memchr(at, '\"', (size_t)(end - at));", "strchr(at, '\"');"),
    Fault("spawner", "spawner.c", "head->argc < 1 || head->argc > length ||", "head->argc < 1 ||"),
    Fault("spawner", "spawner.c", "if (request->n_fds < FDS_MAX) {", "if (request->n_fds <= FDS_MAX) {"),
    Fault("init", "init.c", "/ (ssize_t)sizeof *arrived;", "/ 64;"),
    Fault("stub", "instruction.h", "for (; *at < end; ++*at)", "for (; *at <= end; ++*at)"),
    Fault("stub", "instruction.h", "calloc((size_t)count + 1,", "calloc((size_t)count,"),
    Fault("stub", "escalation.h", "escalation->n_files > ESCALATION_FILES ||", ""),
    Fault("wrapper", "wrapper_message.h", "json->at < json->end && *json->at == c;", "*json->at == c;"),
    Fault("wrapper", "wrapper_message.h", "(size_t)(json->end - json->at) < length || memcmp", "memcmp"),
    Fault("wrapper", "text.h", "if ((at[i] & 0xC0) != 0x80)", "if (!at[1] && (at[i] & 0xC0) != 0x80)"),
    Fault("text", "text.h", "{0x7F, 0xA0}", "{0x7F, 0x7F}"),
    Fault("text", "text.h", "PRINTABLE_BYTES = 12", "PRINTABLE_BYTES = 6"),
    Fault("init", "message.h", "at = put_printable(&piece, at)", "put_byte(&piece, *at++)"),
    Fault(
        "wrapper", "wrapper_message.h", "code >= 0xDC80 && code <= 0xDCFF", "code > 0xDC80 && code <= 0xDCFF"
    ),
    Fault("init", "entering.h", "if (task.filter < 0) {", "if (task.filter < -1) {"),
    Fault("init", "entering.h", "if (!has_files) {", "if (has_files && !count) {"),
    Fault("init", "early_mount.h", "|| item[1] != '/')", "|| !item[1])"),
    Fault("init", "early_mount.h", "item < list + size;", "item <= list + size;"),
    Fault("init", "confinement.h", "(PR_SET_DUMPABLE, 0) < 0", "(PR_SET_DUMPABLE, 0) < -1"),
    Fault("init", "confinement.h", "(PR_CAPBSET_DROP, capability) < 0", "(PR_CAPBSET_DROP, capability) < -1"),
    Fault("init", "task.h", "calloc((size_t)*argc + count + 1,", "calloc((size_t)*argc + count,"),
    Fault("init", "task.h", "if (*size == 0 || text[*size - 1] != '\\0') {", "if (*size == 0) {"),
    Fault(
        "janitor",
        "item.h",
        "|| *text++ != ':' || !read_number(&text, 16, &item->inode)",
        "|| !text++ || !text++ || !text++",
    ),
    Fault(
        "janitor",
        "held_placeholder.h",
        "sizeof *placeholder + strlen(text) + 1",
        "sizeof *placeholder + strlen(text)",
    ),
    Fault("text", "without_links.h", "if (length < sizeof name) {", "if (length <= sizeof name) {"),
    Fault("bare", "bare_string.h", "while (text[length] && strchr(accepted,", "while (strchr(accepted,"),
    Fault("text", "isolation.h", "before = *at++", "at++"),
    Fault("text", "isolation.h", "field = NO_TAGS;", "field = FIRST_TAG;"),
    Fault("text", "suspended_task.h", "if (!text)", "if (text && !*text)"),
    Fault("text", "suspended_task.h", "kind == 'Z'", "kind == 'S'"),
    Fault("text", "suspended_task.h", "mixed(working.key ^ tid)", "mixed(working.key & tid)"),
    Fault("text", "suspended_task.h", "tasks->is_running = true;\n    return false;", "return true;"),
    Fault("text", "suspended_task.h", "tasks->arrived += print", "tasks->print += print"),
    Fault("text", "suspended_task.h", "(kind == 'D' && !working.is_settled)", "kind == 'D'"),
    Fault("text", "suspended_task.h", "|| signo == SIGKILL", ""),
    Fault("text", "suspended_task.h", '!begins(line, "notify: none")', "true"),
    Fault("text", "descendants.h", 'strlen(rest) < strlen(") S ")', 'strlen(rest) < strlen(")")'),
]

FOUND = ("ERROR: AddressSanitizer", "runtime error: ", "harness: does not hold: ")
"""What the sanitizers say, and the driver itself."""


def described(failure: Failure | None) -> str:
    """Everything that is needed to look into a failure; empty if there is none."""
    if failure is None:
        return ""
    return f"{failure.text[:4000]}\n\nmake a file of tests/native/seeds/ of this input: {failure.input!r}"


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """A function that makes drivers in one directory, or in a new one if they are not of the true sources."""
    directory = tmp_path_factory.mktemp("drivers")

    def build_in(name: str, native: Path = NATIVE) -> Path:
        return build_driver(name, directory, native=native)

    return build_in


@needs_sanitizers
@pytest.mark.parametrize("driver", DRIVERS)
def test_damaged_input_does_no_harm(driver: str, build: Build, tmp_path: Path) -> None:
    failure = run_driver(build(driver), seeds_of(driver), tmp_path, count=COUNTS[driver])

    assert not failure, described(failure)


@needs_sanitizers
@pytest.mark.parametrize(
    "fault",
    [fault for fault in FAULTS if fault.driver in DRIVERS],
    ids=lambda fault: f"{fault.driver}-{fault.right[:24]}",
)
def test_a_planted_fault_is_found(fault: Fault, build: Build, tmp_path: Path) -> None:
    native = tmp_path / "native"
    shutil.copytree(NATIVE, native, copy_function=shutil.copyfile)
    text = (native / fault.file).read_text()
    assert text.count(fault.right) == 1, "the fault has no place any more; plant another"
    (native / fault.file).write_text(text.replace(fault.right, fault.wrong))

    failure = run_driver(
        build(fault.driver, native), seeds_of(fault.driver), tmp_path, count=COUNTS[fault.driver]
    )

    assert failure is not None
    assert any(sign in failure.text for sign in FOUND)
    assert failure.input


@pytest.mark.soak
@pytest.mark.timeout(SOAK_S * 10)
@needs_sanitizers
@pytest.mark.parametrize("driver", DRIVERS)
def test_damaged_input_does_no_harm_for_minutes(driver: str, build: Build, tmp_path: Path) -> None:
    program, end = build(driver), time.monotonic() + SOAK_S
    while time.monotonic() < end:
        seed = random.SystemRandom().getrandbits(64)
        failure = run_driver(program, seeds_of(driver), tmp_path, count=10 * COUNTS[driver], seed=seed)
        assert not failure, f"with seed {seed}: {described(failure)}"
