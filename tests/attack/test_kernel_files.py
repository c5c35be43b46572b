"""Files of /proc that tell about the kernel itself and about everybody's keys."""

from __future__ import annotations

from tests.attack.attempt import Attempt, each_attempt, has_read, is_leaked
from tests.attack.conftest import Arena

ATTEMPTS = [
    Attempt(
        "who shares which page is counted",
        "$PROBE open /proc/kpagecount r; $PROBE open /proc/kpageflags r",
        has_read("/proc/kpage"),
        needs_root=True,
        needs="kpagecount",
    ),
    Attempt(
        "where the kernel has its memory is told",
        "$PROBE open /proc/vmallocinfo r",
        has_read("/proc/vmallocinfo"),
        needs_root=True,
    ),
    Attempt(
        "names of keys are told",
        "cat /proc/keys",
        is_leaked,
        host_script="$PROBE add_key $SECRET",
        needs="keyrings",
    ),
]


@each_attempt(ATTEMPTS)
def test_file_about_the_kernel_is_not_there(attempt: Attempt, user: int, arena: Arena) -> None:
    arena.judge(attempt, ATTEMPTS, user)
