from __future__ import annotations

import errno

import pytest

from paddock.sandbox.denial.escalation import open_numbers


def test_bits_tell_of_the_lowest_numbers_and_all_others_are_tried() -> None:
    assert list(open_numbers((0b1011, 1 << 63, 1), 64)) == [0, 1, 3, 127, 128]
    assert list(open_numbers((1, 0, 0), 195)) == [0, 192, 193, 194]
    assert list(open_numbers((), 3)) == [0, 1, 2]


def test_a_table_that_is_too_large_is_refused() -> None:
    with pytest.raises(OSError, match="can't be carried out") as raised:
        open_numbers((1, 0, 0), 8192)
    assert raised.value.errno == errno.EMFILE
