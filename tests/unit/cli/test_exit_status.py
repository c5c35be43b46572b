"""The status that a verb ends with."""

from __future__ import annotations

import pytest

from paddock.cli import exit_status


@pytest.mark.parametrize(
    ("told", "status"), [(0, 0), (3, 3), (255, 255), (256, 255), (512, 255), (-1, 255), (2**63, 255)]
)
def test_a_status_that_no_process_has_is_a_failure(told: int, status: int) -> None:
    assert exit_status.of_command(told) == status
